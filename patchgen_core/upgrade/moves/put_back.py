"""Upstream's new text of a function without what it only moved: code that it put into a new function, and the code of
a function that it put in the place of its call."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.nodes import FUNCTIONS, without_docstring
from patchgen_core.upgrade.merging.effects import effects
from patchgen_core.upgrade.merging.text import DefinitionText, Unit, read_text, units
from patchgen_core.upgrade.moves.release_functions import ReleaseFunction, ReleaseFunctions
from patchgen_core.upgrade.moves.straight_code import (
    StraightCode,
    assigned_names,
    bind_arguments,
    read_optional_entries,
    read_straight_code,
    substitute,
)
from patchgen_core.upgrade.verdicts.deprecated_targets import find_removal


@dataclass(frozen=True)
class PutBack:
    """Upstream's new text as it would be had it not moved some code.

    Attributes:
        calls: the calls of functions whose code it put in their place, which are calls again.
        notes: what was put back, and what upstream's text can do beside that.
    """

    text: str
    calls: tuple[ast.Call, ...] = ()
    notes: tuple[str, ...] = ()


def put_back(base: str, theirs: str, functions: ReleaseFunctions) -> PutBack:
    """Put back what upstream moved between functions, as far as that is certain."""
    result = PutBack(theirs)
    while True:
        try:
            sides = _Sides(read_text(base), read_text(result.text), functions)
        except PatchgenError:
            return result
        step = next(sides.find_moves(), None)
        if step is None:
            return result
        result = PutBack(step.text, (*result.calls, *step.calls), (*result.notes, *step.notes))


@dataclass(frozen=True)
class _Row:
    """Some statements of upstream's that are those of a function: their numbers, and the names that stand for the
    function's own."""

    numbers: tuple[int, ...] = ()
    values: Mapping[str, ast.expr] = field(default_factory=dict)


class _Sides:
    """A function as upstream had it and has it, statement by statement."""

    def __init__(self, base: DefinitionText, theirs: DefinitionText, functions: ReleaseFunctions) -> None:
        self.functions, self.theirs_text = functions, theirs
        self.base, self.theirs = (_units(text) for text in (base, theirs))
        old, new = ({unit.dump for unit in side} for side in (self.base, self.theirs))
        self.lost = [unit.dump not in new for unit in self.base]
        self.added = [unit.dump not in old for unit in self.theirs]
        self._keys: dict[str, tuple[str, ...]] = {}

    def find_moves(self) -> Iterator[PutBack]:
        """What can be put back, one at a time."""
        for number, unit in enumerate(self.base):
            call = _assigned_call(unit) if self.lost[number] else None
            move = self._inlined(unit, call) if call is not None else None
            if move is not None:
                yield move
        for number, unit in enumerate(self.theirs):
            call = _assigned_call(unit) if self.added[number] else None
            move = self._extracted(number, call) if call is not None else None
            if move is not None:
                yield move

    # --- the code of a function, put in the place of its call ----------------------------------------

    def _inlined(self, unit: Unit, call: ast.Call) -> PutBack | None:
        function = self.functions.find_kept(call)
        code = read_straight_code(function.node) if function is not None else None
        values = bind_arguments(function.node, call, function.is_method) if function is not None else None
        if function is None or code is None or values is None or self._names(function.node.name):
            return None
        self._keys = {}
        row = self._find_row(code, values, unit)
        if row is None or not self._can_join(row, code, values):
            return None
        lines = unit.text.moved_lines(unit.start, unit.last, self._indent).split("\n")
        text = self._rewritten({row.numbers[-1]: lines, **{number: [] for number in row.numbers[:-1]}})
        release = find_removal(function.node)
        named = f"'{function.node.name}'" + (f", which it will remove in {release}," if release else "")
        note = f"upstream put the code of {named} in the place of its call: yours still calls it"
        return PutBack(text, (call,), (note, *self._left_out()))

    def _find_row(self, code: StraightCode, values: Mapping[str, ast.expr], unit: Unit) -> _Row | None:
        """The statements of upstream's that are a function's code and assign its result as a call of it did."""
        row, names = _Row(values=values), [name.id for name in assigned_names(unit.node)]
        assert isinstance(unit.node, ast.Assign)
        wanted = [*code.assignments, ast.Assign(unit.node.targets, code.result)]
        for place, node in enumerate(wanted):
            is_last = place == len(wanted) - 1
            matches = [self._match(number, node, row, names if is_last else None) for number in self._after(row)]
            rows = [match for match in matches if match is not None]
            if len(rows) != 1:
                return None
            row = rows[0]
        return row

    def _after(self, row: _Row) -> range:
        return range(row.numbers[-1] + 1 if row.numbers else 0, len(self.theirs))

    def _match(self, number: int, wanted: ast.Assign, row: _Row, names: list[str] | None) -> _Row | None:
        """The row with one more statement, if that is what the function does next; the last one is to the names of the
        call."""
        unit = self.theirs[number]
        own, theirs = assigned_names(wanted), assigned_names(unit.node)
        if not self.added[number] or not theirs or len(own) != len(theirs) or not isinstance(unit.node, ast.Assign):
            return None
        if type(wanted.targets[0]) is not type(unit.node.targets[0]):
            return None
        value, keys = self._without_entries(unit.node.value)
        if ast.dump(substitute(wanted.value, row.values)) != ast.dump(value):
            return None
        if names is not None and names != [name.id for name in theirs]:
            return None
        self._keys |= keys
        bound = {one.id: ast.Name(other.id, ast.Load()) for one, other in zip(own, theirs)} if names is None else {}
        return _Row((*row.numbers, number), {**row.values, **bound})

    def _can_join(self, row: _Row, code: StraightCode, values: Mapping[str, ast.expr]) -> bool:
        """Whether the statements may stand at the last one's place, and nothing else uses what they assign."""
        *first, last = row.numbers
        own = [name.id for node in code.assignments for name in assigned_names(node)]
        names = {name for one in own for name in _names_in(row.values[one])}
        others = [unit for number, unit in enumerate(self.theirs) if number not in row.numbers]
        taken = {name for node in (*(unit.node for unit in others), *values.values()) for name in _names_in(node)}
        if len(names) < len(own) or names & (taken | self._parameters()):
            return False
        return all(
            not effects([self._plain(number)]).meets(effects([self.theirs[between].node]))
            for number in first
            for between in range(number + 1, last)
            if between not in row.numbers
        )

    def _plain(self, number: int) -> ast.stmt:
        """An assignment of upstream's without the dicts that it takes entries out of."""
        node = self.theirs[number].node
        assert isinstance(node, ast.Assign)
        return ast.Assign(node.targets, self._without_entries(node.value)[0])

    # --- code that was put into a function -----------------------------------------------------------

    def _extracted(self, number: int, call: ast.Call) -> PutBack | None:
        function = self._find(call)
        code = read_straight_code(function.node) if function is not None else None
        values = bind_arguments(function.node, call, function.is_method) if function is not None else None
        if function is None or code is None or values is None:
            return None
        starts = [start for start in range(len(self.base)) if self._is_code_at(start, code, values, number)]
        parameters = {argument.arg for argument in ast.walk(function.node.args) if isinstance(argument, ast.arg)}
        is_known = all(self.functions.means_the_same(name, function) for name in code.names - parameters)
        place = self._place_of(starts[0], len(code.assignments) + 1, number) if len(starts) == 1 and is_known else None
        if place is None:
            return None
        self._keys = self._entries_of(call, function)
        run = self.base[starts[0] : starts[0] + len(code.assignments) + 1]
        lines = run[0].text.moved_lines(run[0].first, run[-1].last, self._indent).split("\n")
        text = self._rewritten({number: []}, (place, [*([""] if run[0].is_spaced else []), *lines]))
        note = f"upstream only moved `{_short(run[0])}` into '{function.node.name}': yours stays"
        return PutBack(text, notes=(note, *self._left_out()))

    def _is_code_at(self, start: int, code: StraightCode, values: Mapping[str, ast.expr], number: int) -> bool:
        """Whether old statements from one on are a function's code, and assign its result as a call of it does now."""
        call = self.theirs[number].node
        assert isinstance(call, ast.Assign)
        run = self.base[start : start + len(code.assignments) + 1]
        if len(run) <= len(code.assignments) or not all(self.lost[start : start + len(run)]):
            return False
        known, own = dict(values), set[str]()
        for node, unit in zip((*code.assignments, ast.Assign(call.targets, code.result)), run):
            names, bases = assigned_names(node), assigned_names(unit.node)
            if not isinstance(unit.node, ast.Assign) or len(names) != len(bases) or not names:
                return False
            if type(node.targets[0]) is not type(unit.node.targets[0]):
                return False
            if ast.dump(substitute(node.value, known)) != ast.dump(unit.node.value):
                return False
            known |= {one.id: ast.Name(other.id, ast.Load()) for one, other in zip(names, bases)}
            own |= {name.id for name in bases}
        results = [name.id for name in assigned_names(call)]
        if results != [name.id for name in assigned_names(run[-1].node)]:
            return False
        used = {name for value in values.values() for name in _names_in(value)}
        others = {n for at, unit in enumerate(self.theirs) if at != number for n in _names_in(unit.node)}
        return not (own - set(results)) & (others | used | self._parameters()) and not own & used

    def _place_of(self, start: int, length: int, number: int) -> int | None:
        """The number of upstream's new statement that old ones go before, beside the nearest that stayed; None where
        the order may matter."""
        places = [(start - n, at + 1) for n in range(start) if (at := self._same(n)) is not None]
        following = range(start + length, len(self.base))
        places += [(n - following.start + 1, at) for n in following if (at := self._same(n)) is not None]
        if not places:
            return None
        place = min(places)[1]
        run = effects(unit.node for unit in self.base[start : start + length])
        passed = self.theirs[min(number + 1, place) : max(number, place)]
        return None if any(run.meets(effects([unit.node])) for unit in passed) else place

    def _same(self, number: int) -> int | None:
        """The one statement of upstream's new text that is an old one."""
        same = [at for at, unit in enumerate(self.theirs) if unit.dump == self.base[number].dump]
        return same[0] if len(same) == 1 else None

    # --- entries of dicts ----------------------------------------------------------------------------

    def _without_entries(self, node: ast.expr) -> tuple[ast.expr, dict[str, tuple[str, ...]]]:
        """An expression without the dicts that functions take entries out of, which they do without; and what they
        take, by the functions' names."""
        node, keys = copy.deepcopy(node), dict[str, tuple[str, ...]]()
        for call in [child for child in ast.walk(node) if isinstance(child, ast.Call)]:
            function = self._find(call)
            optional = read_optional_entries(function.node) if function is not None else {}
            if function is not None and any(keyword.arg in optional for keyword in call.keywords):
                keys |= self._entries_of(call, function)
                call.keywords = [keyword for keyword in call.keywords if keyword.arg not in optional]
        return node, keys

    def _find(self, call: ast.Call) -> ReleaseFunction | None:
        """What upstream's new text calls, if all that it takes entries out of is what the caller passes by name."""
        function = self.functions.find(call)
        if function is None or (isinstance(call.func, ast.Name) and call.func.id in self._bound()):
            return None
        optional = read_optional_entries(function.node)
        node = self.theirs_text.definition
        rest = node.args.kwarg if isinstance(node, FUNCTIONS) else None
        own = {rest.arg if rest is not None else "", "{}"}
        passed = [keyword.value for keyword in call.keywords if keyword.arg in optional]
        return function if all(ast.unparse(value) in own for value in passed) else None

    def _bound(self) -> set[str]:
        """The names that upstream's new text binds."""
        nodes = [node for node in ast.walk(self.theirs_text.definition) if isinstance(node, ast.Name)]
        return {node.id for node in nodes if isinstance(node.ctx, ast.Store)} | self._parameters()

    def _entries_of(self, call: ast.Call, function: ReleaseFunction) -> dict[str, tuple[str, ...]]:
        optional = read_optional_entries(function.node)
        taken = (key for keyword in call.keywords for key in optional.get(keyword.arg or "", ()))
        return {function.node.name: tuple(taken)}

    def _left_out(self) -> Iterator[str]:
        for name, keys in self._keys.items():
            if keys:
                listed = ", ".join(f"'{key}'" for key in keys)
                yield f"upstream's '{name}' takes {listed} from what the caller passes, if it is there; yours does not"

    # --- text ----------------------------------------------------------------------------------------

    def _rewritten(self, new: Mapping[int, list[str]], inserted: tuple[int, list[str]] | None = None) -> str:
        """Upstream's new text with other lines in the place of some statements, and lines before one."""
        lines: list[str] = []
        position, source = 1, self.theirs_text.source
        for number, unit in enumerate(self.theirs):
            before = source.lines[position - 1 : unit.first - 1]
            is_beside = number and not new.get(number - 1, [""]) and (_is_blank(lines[-1]) or number - 1 == 0)
            lines += inserted[1] if inserted is not None and number == inserted[0] else []
            lines += before[1:] if is_beside and before and _is_blank(before[0]) else before
            lines += new[number] if number in new else source.lines[unit.first - 1 : unit.last]
            position = unit.last + 1
        lines += inserted[1] if inserted is not None and inserted[0] == len(self.theirs) else []
        return "\n".join([*lines, *source.lines[position - 1 :]])

    @property
    def _indent(self) -> str:
        return self.theirs_text.source.indent(self.theirs[0].start)

    def _names(self, name: str) -> bool:
        """Whether upstream's new text has a name."""
        return name in self.theirs_text.names

    def _parameters(self) -> set[str]:
        nodes = ast.walk(self.theirs_text.definition)
        return {node.arg for node in nodes if isinstance(node, ast.arg)}


def _units(text: DefinitionText) -> list[Unit]:
    """The statements of a function, if each has lines of its own."""
    node = text.definition
    result = units(text, without_docstring(node)) if isinstance(node, FUNCTIONS) else []
    return result if all(unit.is_apart for unit in result) else []


def _assigned_call(unit: Unit) -> ast.Call | None:
    """The call whose result a statement assigns, and does nothing else."""
    value = unit.node.value if isinstance(unit.node, ast.Assign) and assigned_names(unit.node) else None
    return value if isinstance(value, ast.Call) else None


def _names_in(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def _is_blank(line: str) -> bool:
    return not line.strip()


def _short(unit: Unit) -> str:
    return unit.text.source.lines[unit.start - 1].strip().rstrip("(")
