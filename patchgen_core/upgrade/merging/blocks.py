"""Three-way merge of the statements of one block."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from patchgen_core.syntax.edits import Edit, apply_edits
from patchgen_core.syntax.nodes import docstring_of
from patchgen_core.upgrade.merging.edits import Edits
from patchgen_core.upgrade.merging.effects import effects
from patchgen_core.upgrade.merging.match import Matches, match
from patchgen_core.upgrade.merging.text import Unit

TELLING = 60
"""How long a statement's syntax is at least that is known by it: `pass` elsewhere is another one."""
Statement = Callable[[Unit, Unit, Unit], None]


@dataclass(frozen=True)
class Sides:
    """A block's statements in three texts; `parent` is the statement of ours that it is in. In the body of a class
    (`in_class`), names count and not the order."""

    base: list[Unit]
    ours: list[Unit]
    theirs: list[Unit]
    parent: Unit
    in_class: bool


@dataclass(frozen=True)
class Region:
    """Statements between two that all three texts have: half-open ranges of numbers."""

    base: tuple[int, int]
    ours: tuple[int, int]
    theirs: tuple[int, int]


@dataclass
class StatementRun:
    """Statements in a row that only one side has, and between which numbers of the base they stand."""

    units: list[Unit]
    low: int
    high: int
    numbers: list[int] = field(default_factory=list)

    def touches(self, other: StatementRun) -> bool:
        """Whether the two stand at the same place."""
        return max(self.low, other.low) <= min(self.high, other.high)


class _Undecided(Exception):
    """Both sides changed the same; the message says how."""


class BlockMerge:
    """Notes upstream's changes of a block as edits of ours; `statement` merges a statement that all three have."""

    def __init__(self, edits: Edits, sides: Sides, statement: Statement) -> None:
        self.edits, self.sides, self.statement = edits, sides, statement
        self.mine = match(sides.base, sides.ours, sides.in_class)
        self.new = match(sides.base, sides.theirs, sides.in_class)

    def run(self) -> None:
        """Merge the regions, and the statements between them."""
        sides, before = self.sides, self.edits.state
        for number in range(len(sides.base)):
            if number in self.mine.pairs and number in self.new.pairs and number not in self.new.moved:
                trio = sides.base[number], sides.ours[self.mine.pairs[number]], sides.theirs[self.new.pairs[number]]
                self.statement(*trio)
        for region in self._regions():
            state = self.edits.state
            try:
                self._merge(region)
            except _Undecided as reason:
                self.edits.go_back(state)
                self._conflict(region, str(reason))
        if self._is_emptied():
            self.edits.go_back(before)
            whole = Region(*((0, len(side)) for side in (sides.base, sides.ours, sides.theirs)))
            self._conflict(whole, "upstream deleted all that is in a block of yours")

    def _is_emptied(self) -> bool:
        """Whether the edits leave nothing of a block but comments, where Python wants a statement."""
        ours, source = self.sides.ours, self.edits.text.source
        if not ours or docstring_of(self.sides.parent.node) is not None:
            return False
        start, end = ours[0].bounds[0], ours[-1].bounds[1]
        inside = [edit for edit in self.edits.edits if start <= edit.start and edit.end <= end]
        moved = [Edit(edit.start - start, edit.end - start, edit.new) for edit in inside]
        left = apply_edits(source.text[start:end], moved)[0] if inside else source.text[start:end]
        return all(not line.strip() or line.strip().startswith("#") for line in left.split("\n"))

    def _anchors(self) -> Iterator[tuple[int, int, int]]:
        for number in range(len(self.sides.base)):
            in_order = number not in self.mine.moved and number not in self.new.moved
            if number in self.mine.pairs and number in self.new.pairs and in_order:
                yield number, self.mine.pairs[number], self.new.pairs[number]
        yield len(self.sides.base), len(self.sides.ours), len(self.sides.theirs)

    def _regions(self) -> Iterator[Region]:
        at = (0, 0, 0)
        for anchor in self._anchors():
            if at != anchor:
                yield Region(*((start, end) for start, end in zip(at, anchor)))
            at = (anchor[0] + 1, anchor[1] + 1, anchor[2] + 1)

    def _conflict(self, region: Region, reason: str) -> None:
        parts = [side[slice(*span)] for side, span in self._spans(region)]
        old, mine, new = (_text_of(part) for part in parts)
        ours = self.sides.ours
        if parts[1]:
            line = parts[1][0].first
        elif region.ours[0]:
            line = ours[region.ours[0] - 1].last + 1
        else:
            line = ours[0].first if ours else self.sides.parent.last
        indent = self.sides.parent.text.source.indent(ours[0].first) if ours else ""
        self.edits.conflict(line, reason, old, mine, new, indent)

    def _spans(self, region: Region) -> list[tuple[list[Unit], tuple[int, int]]]:
        sides = self.sides
        return [(sides.base, region.base), (sides.ours, region.ours), (sides.theirs, region.theirs)]

    def _merge(self, region: Region) -> None:
        old, mine, new = ([unit.dump for unit in side[slice(*span)]] for side, span in self._spans(region))
        if new in (old, mine):
            return
        for number in range(*region.base):
            self._lost(number)
        runs = self._runs(self.sides.ours, self.mine, region.ours, region.base)
        for run in self._runs(self.sides.theirs, self.new, region.theirs, region.base):
            self._insert(run, runs, region)
        for number in range(*region.ours):
            self._drop(number)

    def _lost(self, number: int) -> None:
        """A statement of the base that one side deleted must be the same on the other."""
        unit = self.sides.base[number]
        has_mine, has_new = number in self.mine.pairs, number in self.new.pairs
        if has_mine and not has_new and self.sides.ours[self.mine.pairs[number]].dump != unit.dump:
            raise _Undecided(f"upstream deleted or replaced what you changed: {short(unit)}")
        if has_new and not has_mine and self.sides.theirs[self.new.pairs[number]].dump != unit.dump:
            raise _Undecided(f"upstream changed what you deleted or replaced: {short(unit)}")
        if not has_mine and not has_new and self._stays(unit):
            raise _Undecided(f"upstream deleted or replaced what you have elsewhere: {short(unit)}")
        if number in self.new.moved and number in self.mine.moved:
            raise _Undecided(f"both sides moved a statement: {short(unit)}")

    def _stays(self, unit: Unit) -> bool:
        """Whether ours has a statement in other places than upstream does."""
        counts = []
        for side in (self.sides.ours, self.sides.theirs):
            nodes = [node for other in side for node in ast.walk(other.node) if isinstance(node, type(unit.node))]
            counts.append([ast.dump(node) for node in nodes].count(unit.dump))
        return counts[0] > counts[1] and len(unit.dump) > TELLING

    def _drop(self, number: int) -> None:
        """Delete a statement that upstream deleted, or moved."""
        base = self.mine.back.get(number)
        if base is None or (base in self.new.pairs and base not in self.new.moved):
            return
        unit = self.sides.ours[number]
        if not unit.is_apart:
            raise _Undecided(f"the statement that upstream deleted shares its line: {short(unit)}")
        start, end = unit.bounds
        if unit.comments != self.sides.base[base].comments:
            start = unit.text.source.line_starts[unit.start - 1]
        inside = [edit for edit in self.edits.edits if start <= edit.start and edit.end <= end and edit.start < end]
        for edit in inside:
            if edit.start > start or edit.end > start:
                self.edits.edits.remove(edit)
        after = self.sides.ours[number + 1] if number + 1 < len(self.sides.ours) else None
        if unit.is_spaced and after is not None and after.is_spaced:
            end = unit.text.source.line_starts[after.first - 1]
        self.edits.replace(start, end, "")

    def _runs(
        self, side: Sequence[Unit], matches: Matches, span: tuple[int, int], base: tuple[int, int]
    ) -> list[StatementRun]:
        """The statements that a side added in a region, or moved there."""
        runs: list[StatementRun] = []
        low, fresh = base[0], True
        for number in range(*span):
            old = matches.back.get(number)
            if old is not None and old not in matches.moved:
                low, fresh = old + 1, True
                continue
            if fresh:
                runs.append(StatementRun([], low, base[1]))
                fresh = False
            runs[-1].units.append(side[number])
            runs[-1].numbers.append(number)
        for run in runs:
            following = [matches.back[n] for n in range(run.numbers[-1] + 1, span[1]) if n in matches.back]
            run.high = next((n for n in following if n not in matches.moved), base[1])
        return runs

    def _insert(self, run: StatementRun, rivals: list[StatementRun], region: Region) -> None:
        rest = self._without_shared(run, rivals)
        if not rest:
            return
        self._check_moves(rest, region)
        added = {unit.dump for unit in run.units}
        touching = [unit for rival in rivals if rival.touches(run) for unit in rival.units]
        own = [unit for unit in touching if unit.dump not in added]
        if own and not self.sides.in_class:
            theirs = effects(unit.node for _, unit in rest)
            if theirs.meets(effects(unit.node for unit in own)):
                raise _Undecided(
                    "both sides changed the same place, and one change reads or writes what the other does"
                )
        shared = [unit for unit in touching if unit.dump in added]
        after = None
        if shared:
            last = max(n for n, unit in zip(run.numbers, run.units) if unit.dump == shared[-1].dump)
            if any(number < last for number, _ in rest):
                raise _Undecided("both sides added some statements, and upstream more between them")
            after = shared[-1]
        self._write(rest, run, region, after)

    def _without_shared(self, run: StatementRun, rivals: list[StatementRun]) -> list[tuple[int, Unit]]:
        """What a run adds that ours has not added at the same place already."""
        shared = [unit.dump for rival in rivals if rival.touches(run) for unit in rival.units]
        elsewhere = {unit.dump for n, unit in enumerate(self.sides.ours) if n not in self.mine.back}
        rest = []
        for number, unit in zip(run.numbers, run.units):
            if unit.dump in shared:
                shared.remove(unit.dump)
                own = next(u for rival in rivals for u in rival.units if u.dump == unit.dump)
                note_same(self.edits, own.node, unit.node)
            elif (
                unit.dump in elsewhere
                and len(unit.dump) > TELLING
                and unit.dump not in {u.dump for u in self.sides.base}
            ):
                raise _Undecided(f"both sides added this statement, at different places: {short(unit)}")
            else:
                rest.append((number, unit))
        return rest

    def _check_moves(self, rest: list[tuple[int, Unit]], region: Region) -> None:
        """A statement that upstream moved must not meet what is ours alone, where it passes that."""
        moved = [self.new.back[number] for number, _ in rest if number in self.new.back]
        for number in moved:
            if number not in self.mine.pairs:
                raise _Undecided(f"upstream moved what you deleted or replaced: {short(self.sides.base[number])}")
            unit = self.sides.ours[self.mine.pairs[number]]
            if unit.dump != self.sides.base[number].dump:
                raise _Undecided(f"upstream moved what you changed: {short(unit)}")
            place = self.mine.pairs[number]
            passed = range(min(place, region.ours[0]), max(place, region.ours[1]))
            mine = [self.sides.ours[n] for n in passed if self._is_own(n)]
            note_same(self.edits, unit.node, self.sides.theirs[self.new.pairs[number]].node)
            if not self.sides.in_class and mine and effects([unit.node]).meets(effects(u.node for u in mine)):
                raise _Undecided(f"upstream moved a statement that your own code may depend on: {short(unit)}")

    def _is_own(self, number: int) -> bool:
        base = self.mine.back.get(number)
        return base is None or self.sides.base[base].dump != self.sides.ours[number].dump

    def _write(self, rest: list[tuple[int, Unit]], run: StatementRun, region: Region, after: Unit | None) -> None:
        ours, starts = self.sides.ours, self.edits.text.source.line_starts
        if not ours or not all(unit.is_apart for unit in ours):
            raise _Undecided("the statements beside what upstream added share a line")
        if not all(unit.is_apart for _, unit in rest):
            raise _Undecided("what upstream added shares a line")
        line, is_behind = (after.last + 1, True) if after is not None else self._place(run, region)
        indent = self.edits.text.source.indent(ours[0].start)
        text = ""
        for count, (_, unit) in enumerate(rest):
            spaced = unit.is_spaced and (count > 0 or (is_behind and line > 1))
            text += ("\n" if spaced else "") + unit.text.moved_lines(unit.first, unit.last, indent) + "\n"
        text += "\n" if self._is_spaced_behind(rest[-1][0], line) else ""
        self.edits.replace(starts[line - 1], starts[line - 1], text, [unit.node for _, unit in rest])

    def _is_spaced_behind(self, number: int, line: int) -> bool:
        """Whether upstream has an empty line between a new statement and the next one, and ours none above that."""
        mine = next((n for n, unit in enumerate(self.sides.ours) if unit.first == line), None)
        base = None if mine is None else self.mine.back.get(mine)
        if mine is None or base is None or self.sides.ours[mine].is_spaced:
            return False
        return self.new.pairs.get(base) == number + 1 and self.sides.theirs[number + 1].is_spaced

    def _place(self, run: StatementRun, region: Region) -> tuple[int, bool]:
        """The line that what upstream added goes before, and whether it follows another statement."""
        ours = self.sides.ours
        replaced = [self.mine.pairs[n] for n in range(run.low, run.high) if n in self.mine.pairs]
        replaced = [n for n in replaced if region.ours[0] <= n < region.ours[1]]
        if replaced:
            first = ours[min(replaced)]
            return first.first, min(replaced) > 0
        before = self.mine.pairs.get(run.low - 1)
        if before is not None and run.low - 1 not in self.mine.moved:
            return ours[before].last + 1, True
        if region.ours[1] < len(ours):
            return ours[region.ours[1]].first, region.ours[1] > 0
        if region.ours[0] > 0 and region.ours[0] == region.ours[1]:
            return ours[region.ours[0] - 1].last + 1, True
        return ours[-1].last + 1, True


def note_same(edits: Edits, ours: ast.stmt, theirs: ast.stmt) -> None:
    """Note that our statement and an equal one of upstream's are one, with all that is in them."""
    edits.same.update(_pairs(theirs, ours))


def note_old(edits: Edits, base: ast.stmt, ours: ast.stmt) -> None:
    """Note that our statement and an equal one of upstream's old ones are one, with all that is in them."""
    edits.old.update(_pairs(base, ours))


def _pairs(one: ast.stmt, other: ast.stmt) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    for left, right in zip(ast.walk(one), ast.walk(other)):
        if isinstance(left, ast.stmt) and isinstance(right, ast.stmt):
            yield left, right


def short(unit: Unit) -> str:
    """A statement's first line, for a message."""
    line = unit.text.source.lines[unit.start - 1].strip()
    return f"`{line}`" if len(line) <= 80 else f"`{line[:77]}...`"


def _text_of(part: Sequence[Unit]) -> str:
    """The text of some statements in a row, at column 0."""
    if not part:
        return ""
    return part[0].text.moved_lines(part[0].first, part[-1].last)
