"""Which statement's value each statement of a merged function uses, and whether one of its sides had it so.

Both sides' changes can be far apart and still meet: ours changes a value that upstream's new statement reads. Neither
side was ever run like that, so it is no clean merge.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from patchgen_core.syntax.nodes import COMPOUND, DEFINITIONS, FUNCTIONS, blocks
from patchgen_core.upgrade.merging.effects import effects, place

Label = Callable[[ast.stmt], object]
"""What a statement is known by in all texts."""
ENTRY = "entry"
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_Values = dict[str, tuple[object, ...]]


@dataclass(frozen=True)
class ValueUse:
    """A statement that uses what another one assigned.

    Attributes:
        source: the label of the statement that assigns; a parameter's name in a tuple; ``entry`` for none before it.
        target: the label of the one that uses it.
        how: what takes it there: the function that is called with it, or the operation.
        is_own: whether ours changed the statement that assigns.
    """

    source: object
    target: object
    name: str
    how: str
    is_own: bool


@dataclass(frozen=True)
class _Doing:
    """What parts of a statement do.

    Attributes:
        reads: the names that they read, in order.
        takers: what takes each of them.
        writes: the names that they write.
        bound: those that have no part of what they had before.
    """

    reads: tuple[str, ...]
    takers: Mapping[str, Sequence[str]]
    writes: frozenset[str]
    bound: frozenset[str]


@dataclass
class Flow:
    """The uses in a function, each with its statement, which goes by its `label`; ours has changed those in `own`.

    The uses come in the same order in every run.
    """

    label: Label
    own: Container[object]
    uses: dict[ValueUse, ast.stmt] = field(default_factory=dict)
    _labels: dict[ast.stmt, object] = field(default_factory=dict)
    _doings: dict[tuple[ast.AST, ...], _Doing] = field(default_factory=dict)

    def block(self, body: Iterable[ast.stmt], values: _Values) -> _Values | None:
        """Follow some statements; what is assigned after them, None when that is never reached."""
        current: _Values | None = dict(values)
        for statement in body:
            if current is None:
                current = dict(values)  # unreachable, and yet code
            current = self._statement(statement, current)
        return current

    def _statement(self, node: ast.stmt, values: _Values) -> _Values | None:
        if isinstance(node, DEFINITIONS):
            self._use(node, [node], values)
            return {**values, node.name: (self._label(node),)}
        if not isinstance(node, COMPOUND):
            self._use(node, [node], values)
            after = self._assign(node, [node], values)
            return None if isinstance(node, _ENDS) else after
        head = [child for child in ast.iter_child_nodes(node) if not isinstance(child, (ast.stmt, *_PARTS))]
        self._use(node, head, values)
        values = self._assign(node, head, values)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            return self.block(node.body, values)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(node, values)
        if isinstance(node, ast.If):
            return joined([self.block(node.body, values), self.block(node.orelse, values)])
        return self._other(node, values)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, values: _Values) -> _Values:
        once = joined([values, self.block(node.body, values)]) or values
        targets = [] if isinstance(node, ast.While) else [node.target]
        again = joined([once, self.block(node.body, self._assign(node, targets, once))]) or once
        return joined([again, self.block(node.orelse, again)]) or again

    def _other(self, node: ast.stmt, values: _Values) -> _Values | None:
        """``try`` and ``match``: each part may follow any other."""
        states: list[_Values | None] = [values]
        for body in blocks(node):
            states.append(self.block(body, joined(states) or values))
        return joined(states)

    def _use(self, node: ast.stmt, parts: Iterable[ast.AST], values: _Values) -> None:
        doing, target = self._doing(parts), self._label(node)
        for name in doing.reads:
            for source in values.get(name, (ENTRY,)):
                for how in doing.takers.get(name, [""]):
                    self.uses.setdefault(ValueUse(source, target, name, how, source in self.own), node)

    def _assign(self, node: ast.stmt, parts: Iterable[ast.AST], values: _Values) -> _Values:
        doing, result = self._doing(parts), dict(values)
        for name in doing.writes:
            before = () if name in doing.bound else values.get(name, (ENTRY,))
            result[name] = tuple(dict.fromkeys([*before, self._label(node)]))
        return result

    def _label(self, node: ast.stmt) -> object:
        if node not in self._labels:
            self._labels[node] = self.label(node)
        return self._labels[node]

    def _doing(self, parts: Iterable[ast.AST]) -> _Doing:
        """What parts do, which is looked at once, however often a loop comes to them."""
        key = tuple(parts)
        if key not in self._doings:
            names = [node for part in key for node in ast.walk(part) if isinstance(node, ast.Name)]
            bound = {name.id for name in names if isinstance(name.ctx, ast.Store)}
            both = effects(key)
            all_bound = frozenset(bound | {f"**{name}" for name in bound})
            self._doings[key] = _Doing(tuple(sorted(both.reads)), _takers(key), both.writes, all_bound)
        return self._doings[key]


_PARTS = (ast.ExceptHandler, ast.match_case)


def joined(states: Iterable[_Values | None]) -> _Values | None:
    """What is assigned where several ways meet."""
    reached = [state for state in states if state is not None]
    if not reached:
        return None
    names = dict.fromkeys(chain(*reached))
    return {name: tuple(dict.fromkeys(chain(*(state.get(name, (ENTRY,)) for state in reached)))) for name in names}


def _takers(parts: Iterable[ast.AST]) -> dict[str, list[str]]:
    """What takes each name that is read."""
    takers: dict[str, list[str]] = {}

    def visit(node: ast.AST, how: str) -> None:
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            takers.setdefault(place(node), []).append(how)
        for child in ast.iter_child_nodes(node):
            visit(child, _how(node, child, how))

    for part in parts:
        visit(part, "")
    return takers


def _how(node: ast.AST, child: ast.AST, how: str) -> str:
    """What takes a part of an expression."""
    if isinstance(node, ast.Call):
        return how if child is node.func else _callee(node.func)
    if isinstance(node, ast.Attribute):
        return f".{node.attr}"
    if isinstance(node, (ast.keyword, ast.Starred, ast.Tuple, ast.List)):
        return how
    return type(node).__name__ if isinstance(node, ast.expr) else ""


def _callee(function: ast.expr) -> str:
    """What is called: by its dotted name, or a method of whatever an expression makes by its own."""
    node = function
    while isinstance(node, ast.Attribute):
        node = node.value
    if isinstance(function, ast.Attribute) and not isinstance(node, ast.Name):
        return f".{function.attr}"
    return ast.unparse(function)


def find_uses(node: ast.AST, label: Label, own: Container[object]) -> Mapping[ValueUse, ast.stmt]:
    """Every use in a definition and the functions of its body; arguments as for :class:`Flow`."""
    flow = Flow(label, own)
    if isinstance(node, FUNCTIONS):
        names = [argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)]
        flow.block(node.body, {f"{stars}{name}": ((name,),) for name in names for stars in ("", "**")})
    results = dict(flow.uses)
    for child in ast.walk(node):
        if child is not node and isinstance(child, FUNCTIONS) and isinstance(node, ast.ClassDef):
            results.update(find_uses(child, label, own))
    return results
