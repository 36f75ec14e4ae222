"""Statements of upstream's that ours has in a block of its own, such as below an ``else``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from patchgen_core.codegen.source import COMPOUND, blocks
from patchgen_core.upgrade.merge_blocks import Sides
from patchgen_core.upgrade.merge_match import match
from patchgen_core.upgrade.merge_text import Unit, units

_TELLING = 60
"""How long a statement's syntax is at least that is known by it: `pass` elsewhere is another one."""


@dataclass(frozen=True)
class _Nested:
    """A block inside a statement of ours with numbers of the base's statements that stand there."""

    parent: Unit
    units: list[Unit]
    base: list[int]


def without_nested(sides: Sides) -> tuple[Sides, list[Sides]]:
    """A block without what ours has moved into blocks inside it, and each of those by itself.

    Args:
        sides: the block.

    Returns:
        The block as it is and no other, where upstream changed nothing of what was moved.
    """
    inner: list[Sides] = []
    while not sides.in_class and (found := _find(sides)) is not None:
        outer, nested = found
        inner.append(nested)
        sides = outer
    return sides, inner


def _find(sides: Sides) -> tuple[Sides, Sides] | None:
    mine = match(sides.base, sides.ours, sides.in_class)
    missing = [number for number in range(len(sides.base)) if number not in mine.pairs]
    for nested in _candidates(sides, missing):
        theirs = _theirs_of(sides, nested.base)
        if [sides.theirs[number].dump for number in theirs] == [sides.base[n].dump for n in nested.base]:
            continue
        part = Sides(
            [sides.base[number] for number in nested.base],
            _with_comments_of_base(sides, nested),
            [sides.theirs[number] for number in theirs],
            nested.parent,
            False,
        )
        base = [unit for number, unit in enumerate(sides.base) if number not in nested.base]
        rest = [unit for number, unit in enumerate(sides.theirs) if number not in theirs]
        return replace(sides, base=base, theirs=rest), part
    return None


def _with_comments_of_base(sides: Sides, nested: _Nested) -> list[Unit]:
    """The block's statements; those of the base have the comments that they have there, and ours above them stay."""
    comments = {sides.base[number].dump: sides.base[number].comments for number in nested.base}
    found = []
    for unit in nested.units:
        known = comments.get(unit.dump)
        if known is not None and unit.comments[len(unit.comments) - len(known) :] == known:
            unit = replace(unit, first=unit.start - len(known))
        found.append(unit)
    return found


def _candidates(sides: Sides, missing: list[int]) -> Iterator[_Nested]:
    """The blocks inside ours that have some of the base's missing statements, in the base's order and once only."""
    known = {sides.base[number].dump: number for number in missing if len(sides.base[number].dump) >= _TELLING}
    inside = [found for unit in sides.ours for found in _blocks(unit)]
    counts: dict[str, int] = {}
    for _, block in inside:
        for unit in block:
            counts[unit.dump] = counts.get(unit.dump, 0) + 1
    for parent, block in inside:
        numbers = [known[unit.dump] for unit in block if unit.dump in known and counts[unit.dump] == 1]
        if numbers and numbers == sorted(numbers):
            yield _Nested(parent, block, numbers)


def _blocks(unit: Unit) -> Iterator[tuple[Unit, list[Unit]]]:
    """The blocks inside a statement with the statement that each is of; definitions are worlds of their own."""
    if not isinstance(unit.node, COMPOUND):
        return
    for body in blocks(unit.node):
        block = units(unit.text, body)
        yield unit, block
        for inner in block:
            yield from _blocks(inner)


def _theirs_of(sides: Sides, numbers: list[int]) -> list[int]:
    """The numbers of upstream's new statements that are for a block that has some of the base's.

    Those that it has as well, and new ones that stand in the place of such, or between two of them.
    """
    new = match(sides.base, sides.theirs, sides.in_class)
    chosen = set(numbers)
    found = []
    for number in range(len(sides.theirs)):
        if number in new.back:
            near = [new.back[number]]
        else:
            before = max((new.back[n] for n in range(number) if n in new.back), default=-1)
            following = [new.back[n] for n in range(number + 1, len(sides.theirs)) if n in new.back]
            after = min(following, default=len(sides.base))
            replaced = [n for n in range(before + 1, after) if n not in new.pairs]
            near = replaced or [before, after]
        if chosen.issuperset(near):
            found.append(number)
    return found
