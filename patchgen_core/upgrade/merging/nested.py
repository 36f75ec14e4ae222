"""Statements of upstream's that ours has in blocks of its own, such as below an ``else``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from patchgen_core.syntax.nodes import COMPOUND, blocks
from patchgen_core.upgrade.merging.blocks import TELLING, Sides, short
from patchgen_core.upgrade.merging.edits import Edits
from patchgen_core.upgrade.merging.effects import effects
from patchgen_core.upgrade.merging.match import Matches, match
from patchgen_core.upgrade.merging.text import Unit, units

_Path = tuple[tuple[ast.stmt, int], ...]


@dataclass(frozen=True)
class _Block:
    """A block inside a statement of ours.

    Attributes:
        parent: the statement that it is directly in.
        units: its statements.
        path: the statements that it is in, each with the number of the block of that one.
    """

    parent: Unit
    units: list[Unit]
    path: _Path


@dataclass(frozen=True)
class _Moved:
    """Statements of the base that stand in blocks of ours: in one, or in several of which one at most is run.

    Attributes:
        numbers: the statements' numbers in the base.
        places: the blocks, each with its statements that are these.
    """

    numbers: tuple[int, ...]
    places: list[tuple[_Block, list[Unit]]]

    @property
    def nodes(self) -> set[ast.stmt]:
        """All of these statements in ours."""
        return {unit.node for _, found in self.places for unit in found}


def without_nested(edits: Edits, sides: Sides) -> list[Sides]:
    """A block without what ours has moved into blocks inside it, followed by each of those.

    Args:
        edits: where is noted what was moved.
        sides: the block.

    Returns:
        The block alone where upstream changed nothing of what was moved.
    """
    inner: list[Sides] = []
    while not sides.in_class and (found := _find(sides)) is not None:
        sides, parts, moved = found
        inner += parts
        _note(edits, moved)
    return [sides, *inner]


def _note(edits: Edits, moved: _Moved) -> None:
    first = moved.places[0][1]
    for _, others in moved.places[1:]:
        for unit, other in zip(first, others):
            edits.copied(unit.node, other.node)
    where = "a block" if len(moved.places) == 1 else f"{len(moved.places)} blocks"
    more = f" and {len(first) - 1} more" if len(first) > 1 else ""
    said = f"you have upstream's {short(first[0])}{more} in {where} of your own"
    edits.notes.append(f"{said}: what upstream changed of it is changed there, and other paths are as they were")


def _find(sides: Sides) -> tuple[Sides, list[Sides], _Moved] | None:
    mine = match(sides.base, sides.ours, sides.in_class)
    new = match(sides.base, sides.theirs, sides.in_class)
    missing = [number for number in range(len(sides.base)) if number not in mine.pairs]
    for moved in _candidates(sides, missing):
        theirs = _theirs_of(sides, moved, new)
        if _is_mixed(sides, theirs, new):
            continue
        old = [sides.base[number] for number in moved.numbers]
        chosen = [sides.theirs[number] for number in theirs]
        if [unit.dump for unit in chosen] == [unit.dump for unit in old]:
            continue
        parts = [Sides(old, _with_comments_of(old, b.units), chosen, b.parent, False) for b, _ in moved.places]
        rest = [number for number in range(len(sides.base)) if number not in moved.numbers]
        others = [number for number in range(len(sides.theirs)) if number not in theirs]
        outer = replace(
            sides, base=[sides.base[number] for number in rest], theirs=[sides.theirs[number] for number in others]
        )
        pairs = match(outer.base, outer.theirs, sides.in_class).pairs
        if {rest[one]: others[other] for one, other in pairs.items()}.items() <= new.pairs.items():
            return outer, parts, moved
    return None


def _with_comments_of(base: list[Unit], block: list[Unit]) -> list[Unit]:
    """The block's statements; those of the base have the comments that they have there, and ours above them stay."""
    comments = {unit.dump: unit.comments for unit in base}
    found = []
    for unit in block:
        known = comments.get(unit.dump)
        if known is not None and unit.comments[len(unit.comments) - len(known) :] == known:
            unit = replace(unit, first=unit.start - len(known))
        found.append(unit)
    return found


def _candidates(sides: Sides, missing: list[int]) -> Iterator[_Moved]:
    """What of the base's missing statements stands in the base's order in blocks of ours, and nowhere else."""
    found = []
    for block in (block for unit in sides.ours for block in _blocks(unit, ())):
        pairs = _pairs(sides, missing, block)
        if pairs:
            found.append((tuple(sorted(pairs)), block, pairs))
    for numbers, block, _ in found:
        sharing = [entry for entry in found if set(entry[0]) & set(numbers)]
        alike = all(entry[0] == numbers and _in_order(entry[2]) for entry in sharing)
        apart = all(_is_either(one[1], two[1]) for n, one in enumerate(sharing) for two in sharing[n + 1 :])
        if alike and apart and sharing[0][1] is block:
            yield _Moved(numbers, [(b, [b.units[pairs[n][0]] for n in numbers]) for _, b, pairs in sharing])


def _pairs(sides: Sides, missing: list[int], block: _Block) -> dict[int, list[int]]:
    """The base's missing statements in a block, with where they stand there; none if none is the same."""
    found: dict[int, list[int]] = {}
    for number in missing:
        dump = sides.base[number].dump
        places = [n for n, unit in enumerate(block.units) if unit.dump == dump and len(dump) > TELLING]
        if places:
            found[number] = places
    if found:
        alike = match([sides.base[number] for number in missing], block.units, False)
        for one, other in alike.pairs.items():
            if one not in alike.moved:
                found.setdefault(missing[one], [other])
    return found


def _in_order(pairs: dict[int, list[int]]) -> bool:
    """Whether each stands there once, and they in the base's order."""
    places = [pairs[number] for number in sorted(pairs)]
    return all(len(place) == 1 for place in places) and places == sorted(places)


def _is_either(one: _Block, other: _Block) -> bool:
    """Whether two blocks are of different branches of an ``if``."""
    for (left, first), (right, second) in zip(one.path, other.path):
        if left is not right:
            return False
        if first != second:
            return isinstance(left, ast.If)
    return False


def _blocks(unit: Unit, path: _Path) -> Iterator[_Block]:
    """The blocks inside a statement; definitions are worlds of their own."""
    if not isinstance(unit.node, COMPOUND):
        return
    for number, body in enumerate(blocks(unit.node)):
        block = _Block(unit, units(unit.text, body), (*path, (unit.node, number)))
        yield block
        for inner in block.units:
            yield from _blocks(inner, block.path)


def _theirs_of(sides: Sides, moved: _Moved, new: Matches) -> list[int]:
    """The numbers of upstream's new statements that are for a block that has some of the base's.

    Those that it has as well, new ones that stand in the place of such or between two of them, and new ones behind
    them that use what they assign.
    """
    chosen = set(moved.numbers)
    found: list[int] = []
    for number in range(len(sides.theirs)):
        if number in new.back:
            near = [new.back[number]]
        else:
            before = max((new.back[n] for n in range(number) if n in new.back), default=-1)
            following = [new.back[n] for n in range(number + 1, len(sides.theirs)) if n in new.back]
            after = min(following, default=len(sides.base))
            near = [n for n in range(before + 1, after) if n not in new.pairs] or [before, after]
            if near == [before, after] and before in chosen and _depends(sides, moved, number, found):
                near = [before]
        if chosen.issuperset(near):
            found.append(number)
    return found


def _is_mixed(sides: Sides, theirs: list[int], new: Matches) -> bool:
    """Whether new statements that are not for the block stand among those that are, and may depend on the order."""
    among = range(theirs[0], theirs[-1]) if theirs else range(0)
    others = effects(sides.theirs[n].node for n in among if n not in theirs and n not in new.back)
    return others.meets(effects(sides.theirs[n].node for n in theirs))


def _depends(sides: Sides, moved: _Moved, number: int, found: list[int]) -> bool:
    """Whether a statement of upstream's uses what moved ones assign, and ours has no other value for that."""
    assigned = effects(sides.theirs[n].node for n in found).writes
    names = assigned & effects([sides.theirs[number].node]).reads
    return bool(names) and not any(names & _values(unit.node, moved.nodes) for unit in sides.ours)


def _values(node: ast.stmt, without: set[ast.stmt]) -> frozenset[str]:
    """What a statement assigns other than None, but for some statements in it."""
    if node in without or (isinstance(node, ast.Assign) and ast.unparse(node.value) == "None"):
        return frozenset()
    if not isinstance(node, COMPOUND):
        return effects([node]).writes
    head = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    inner = [_values(child, without) for body in blocks(node) for child in body]
    return frozenset().union(effects(head).writes, *inner)
