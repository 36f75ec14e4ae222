"""Statements of upstream's that ours has in a block of its own, such as below the ``else`` of a kernel's ``if``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from patchgen_core.syntax.nodes import COMPOUND, blocks
from patchgen_core.upgrade.merging.blocks import TELLING, Sides, short
from patchgen_core.upgrade.merging.edits import Edits
from patchgen_core.upgrade.merging.match import Matches, match
from patchgen_core.upgrade.merging.text import Unit, units


@dataclass(frozen=True)
class _NestedBlock:
    """A block inside a statement of ours; `places` says where it has the base's statements, by their numbers there."""

    parent: Unit
    units: list[Unit]
    places: dict[int, list[int]]

    @property
    def numbers(self) -> list[int]:
        """The numbers in the base of the statements that it has."""
        return sorted(self.places)

    @property
    def is_in_order(self) -> bool:
        """Whether each stands there once, and they in the base's order."""
        places = [self.places[number] for number in self.numbers]
        return all(len(place) == 1 for place in places) and places == sorted(places)


def without_nested(edits: Edits, sides: Sides) -> list[Sides]:
    """A block without what ours has moved into blocks inside it and upstream changed, followed by each of those."""
    inner: list[Sides] = []
    while not sides.in_class and (split := _split(sides)) is not None:
        sides, part, block = split
        inner.append(part)
        first, *others = (block.units[block.places[number][0]] for number in block.numbers)
        more = f" and {len(others)} more" if others else ""
        place = f"you have upstream's {short(first)}{more} in a block of your own"
        edits.notes.append(f"{place}: upstream's change is made there, and other paths stay as they were")
    return [sides, *inner]


def _split(sides: Sides) -> tuple[Sides, Sides, _NestedBlock] | None:
    """What is left of a block, and a block inside it that has statements of the base which upstream changed."""
    mine = match(sides.base, sides.ours, sides.in_class)
    new = match(sides.base, sides.theirs, sides.in_class)
    missing = [number for number in range(len(sides.base)) if number not in mine.pairs]
    for block in _candidates(sides, missing):
        theirs = _numbers_of_theirs(sides, block, new)
        old = [sides.base[number] for number in block.numbers]
        chosen = [sides.theirs[number] for number in theirs]
        if [unit.dump for unit in chosen] == [unit.dump for unit in old]:
            continue
        rest = [number for number in range(len(sides.base)) if number not in block.places]
        others = [number for number in range(len(sides.theirs)) if number not in theirs]
        base, remaining = [sides.base[number] for number in rest], [sides.theirs[number] for number in others]
        pairs = match(base, remaining, sides.in_class).pairs
        if {rest[one]: others[other] for one, other in pairs.items()}.items() <= new.pairs.items():
            part = Sides(old, _with_comments_of(old, block.units), chosen, block.parent, False)
            return replace(sides, base=base, theirs=remaining), part, block
    return None


def _with_comments_of(base: list[Unit], block: list[Unit]) -> list[Unit]:
    """The block's statements; those of the base have the comments that they have there, and ours above them stay."""
    comments = {unit.dump: unit.comments for unit in base}
    units = []
    for unit in block:
        comment = comments.get(unit.dump)
        if comment is not None and unit.comments[len(unit.comments) - len(comment) :] == comment:
            unit = replace(unit, first=unit.start - len(comment))
        units.append(unit)
    return units


def _candidates(sides: Sides, missing: list[int]) -> Iterator[_NestedBlock]:
    """The blocks of ours that have some of the base's missing statements, which stand in no other block."""
    candidates = [block for unit in sides.ours for block in _blocks(sides, missing, unit) if block.places]
    for block in candidates:
        sharing = [other for other in candidates if other.places.keys() & block.places.keys()]
        if sharing == [block] and block.is_in_order:
            yield block


def _blocks(sides: Sides, missing: list[int], unit: Unit) -> Iterator[_NestedBlock]:
    """The blocks inside a statement; definitions are worlds of their own."""
    if not isinstance(unit.node, COMPOUND):
        return
    for body in blocks(unit.node):
        inside = units(unit.text, body)
        yield _NestedBlock(unit, inside, _places(sides, missing, inside))
        for inner in inside:
            yield from _blocks(sides, missing, inner)


def _places(sides: Sides, missing: list[int], block: list[Unit]) -> dict[int, list[int]]:
    """The base's missing statements in a block, with where they stand there; none if none is the same."""
    places: dict[int, list[int]] = {}
    for number in missing:
        dump = sides.base[number].dump
        same = [n for n, unit in enumerate(block) if unit.dump == dump and len(dump) > TELLING]
        if same:
            places[number] = same
    if places:
        similar = match([sides.base[number] for number in missing], block, False)
        for one, other in similar.pairs.items():
            if one not in similar.moved:
                places.setdefault(missing[one], [other])
    return places


def _numbers_of_theirs(sides: Sides, block: _NestedBlock, new: Matches) -> list[int]:
    """The numbers of upstream's new statements that a block has, and of new ones in their place or between them."""
    numbers: list[int] = []
    for number in range(len(sides.theirs)):
        if number in new.back:
            near = [new.back[number]]
        else:
            before = max((new.back[n] for n in range(number) if n in new.back), default=-1)
            following = [new.back[n] for n in range(number + 1, len(sides.theirs)) if n in new.back]
            after = min(following, default=len(sides.base))
            near = [n for n in range(before + 1, after) if n not in new.pairs] or [before, after]
        if block.places.keys() >= set(near):
            numbers.append(number)
    return numbers
