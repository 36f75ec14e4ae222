"""Strings that expressions come to, as far as constants, loops over literals and the callers of helpers tell."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from patchgen_core.syntax.nodes import FUNCTIONS, Function
from patchgen_core.syntax.scopes import Call, NameBinding, Scope
from patchgen_core.syntax.signatures import is_static, signature_of

ANY = "*"
"""Stands for a string that the text does not tell."""

_DEPTH = 20


@dataclass(frozen=True)
class Located:
    """An expression and the scope that its names mean something in."""

    node: ast.expr
    scope: Scope


@dataclass(frozen=True)
class _Choice:
    """A loop's item or a helper's call, which takes several values; no ``options`` when they cannot be told."""

    key: ast.AST
    options: tuple[Located | Call, ...]


_Chosen = dict[ast.AST, "Located | Call"]
_Reduced = Located | _Choice | None


class Literals:
    """Evaluates expressions of modules; ``callers`` gives the calls of a function, by its name."""

    def __init__(self, callers: Callable[[str], Sequence[Call]] = lambda name: ()) -> None:
        self._callers = callers

    def rows(self, nodes: Sequence[ast.expr | None], scope: Scope) -> set[tuple[str, ...]]:
        """What several expressions come to together, once for each pass of the loops that they stand in.

        ``ANY`` stands for what cannot be told, and for an expression that is not there.
        """
        return set(self._rows([None if node is None else Located(node, scope) for node in nodes], {}))

    def _rows(self, places: Sequence[Located | None], chosen: _Chosen) -> Iterator[tuple[str, ...]]:
        literals = [None if place is None else self._reduce(place, chosen, 0) for place in places]
        choice = next((entry for entry in literals if isinstance(entry, _Choice) and entry.options), None)
        if choice is None:
            yield tuple(_text(entry) for entry in literals)
            return
        for option in choice.options:
            yield from self._rows(places, {**chosen, choice.key: option})

    def _reduce(self, place: Located, chosen: _Chosen, depth: int) -> _Reduced:
        """A literal behind an expression, or what has to be chosen before it is known; None for neither."""
        node, scope = place.node, place.scope
        if depth > _DEPTH:
            return None
        if isinstance(node, ast.Name):
            return self._name(node, scope, chosen, depth)
        if isinstance(node, ast.Subscript):
            return self._follow(self._part(Located(node.value, scope), node.slice, chosen, depth), chosen, depth)
        return place

    def _follow(self, place: _Reduced, chosen: _Chosen, depth: int) -> _Reduced:
        return self._reduce(place, chosen, depth + 1) if isinstance(place, Located) else place

    def _part(self, holder: _Reduced, key: ast.expr, chosen: _Chosen, depth: int) -> _Reduced:
        literal = self._follow(holder, chosen, depth)
        return _entry(literal, key) if isinstance(literal, Located) else literal

    def _name(self, node: ast.Name, scope: Scope, chosen: _Chosen, depth: int) -> _Reduced:
        home = scope.find(node.id) or _top(scope)
        binding = _binding(home, node)
        if binding is None:
            return None
        if binding.value is None:
            return self._parameter(node.id, home, chosen, depth)
        place: _Reduced = Located(binding.value, home)
        if binding.is_item:
            place = self._item(binding.value, home, chosen, depth)
        if binding.index is not None:
            place = self._part(place, ast.Constant(binding.index), chosen, depth)
        return self._follow(place, chosen, depth)

    def _item(self, looped: ast.expr, scope: Scope, chosen: _Chosen, depth: int) -> _Reduced:
        if looped in chosen:
            option = chosen[looped]
            return option if isinstance(option, Located) else None
        method, node = "", looped
        if isinstance(looped, ast.Call) and isinstance(looped.func, ast.Attribute) and not looped.args:
            method, node = looped.func.attr, looped.func.value
        literal = self._reduce(Located(node, scope), chosen, depth + 1)
        return _Choice(looped, tuple(_items(literal, method))) if isinstance(literal, Located) else literal

    def _parameter(self, name: str, home: Scope, chosen: _Chosen, depth: int) -> _Reduced:
        function = home.node
        if not isinstance(function, FUNCTIONS):
            return None
        if function not in chosen:
            return _Choice(function, tuple(self._callers(function.name)))
        call = chosen[function]
        return self._follow(_argument(function, name, home, call), chosen, depth) if isinstance(call, Call) else None


def _text(literal: _Reduced) -> str:
    node = literal.node if isinstance(literal, Located) else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ANY


def _top(scope: Scope) -> Scope:
    while scope.parent is not None:
        scope = scope.parent
    return scope


def _binding(home: Scope, node: ast.Name) -> NameBinding | None:
    """The one way a name gets its value; of several loops, the last before its use."""
    bindings = home.bound.get(node.id, [])
    if all(binding.is_item for binding in bindings):
        bindings = [b for b in bindings if b.value is not None and b.value.lineno <= node.lineno][-1:]
    return bindings[0] if len(bindings) == 1 else None


def _entry(holder: Located, key: ast.expr) -> Located | None:
    """What a literal list, tuple or dict has under a literal key."""
    key_value = key.value if isinstance(key, ast.Constant) else None
    node = holder.node
    if isinstance(node, (ast.Tuple, ast.List)) and isinstance(key_value, int):
        is_plain = not any(isinstance(entry, ast.Starred) for entry in node.elts)
        return Located(node.elts[key_value], holder.scope) if is_plain and key_value < len(node.elts) else None
    if isinstance(node, ast.Dict) and key_value is not None:
        for name, value in zip(node.keys, node.values):
            if isinstance(name, ast.Constant) and name.value == key_value:
                return Located(value, holder.scope)
    return None


def _items(holder: Located, method: str) -> Iterator[Located]:
    """What a loop over a literal gives, or over a method's result of a literal dict."""
    node = holder.node
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)) and not method:
        if not any(isinstance(entry, ast.Starred) for entry in node.elts):
            yield from (Located(entry, holder.scope) for entry in node.elts)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values):
            if key is None:
                return
            pair = ast.copy_location(ast.Tuple([key, value], ast.Load()), key)
            entry = {"": key, "keys": key, "values": value, "items": pair}.get(method)
            if entry is not None:
                yield Located(entry, holder.scope)


def _argument(function: Function, name: str, home: Scope, call: Call) -> Located | None:
    """What a call passes for a parameter, or the parameter's default."""
    for keyword in call.node.keywords:
        if keyword.arg == name:
            return Located(keyword.value, call.scope)
    is_open = any(isinstance(a, ast.Starred) for a in call.node.args) or any(k.arg is None for k in call.node.keywords)
    signature = signature_of(function, home.is_method and not is_static(function))
    parameter = signature.find(name)
    if is_open or parameter is None:
        return None
    place = signature.parameters.index(parameter)
    if parameter.kind != "keyword" and place < len(call.node.args):
        return Located(call.node.args[place], call.scope)
    return Located(parameter.default, home.parent or home) if parameter.default is not None else None
