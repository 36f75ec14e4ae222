"""Defects of calls and names: masks left out, arguments dropped or swapped, other variables, labels shifted twice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from tools.mutation.mutant import Edit
from tools.mutation.scope import Scope, Spanned

_PAIRS = (("cos", "sin"), ("q", "k"), ("query", "key"), ("gate", "up"), ("key", "value"), ("rows", "columns"))
"""What is mistaken for each other, as words of a name."""
_SHIFTED = "torch.nn.functional.pad({}, (0, 1), value=-100)[..., 1:]"


def omitted_masks(scope: Scope) -> Iterator[Edit]:
    """An argument that is a mask becomes None or is left out."""
    for node in _calls(scope):
        for argument in node.args:
            if isinstance(argument, (ast.Name, ast.Attribute)) and "mask" in ast.unparse(argument):
                yield scope.edit("omitted mask", argument, "None")
        for keyword in node.keywords:
            if "mask" in (keyword.arg or ""):
                yield scope.drop("omitted mask", keyword, _arguments(node))


def dropped_arguments(scope: Scope) -> Iterator[Edit]:
    """A keyword is not passed any more; nor is a kernel's last argument."""
    for node in _calls(scope):
        everything = _arguments(node)
        for keyword in node.keywords:
            if keyword.arg != "keepdim" and "mask" not in (keyword.arg or ""):
                yield scope.drop("dropped argument", keyword, everything)
        if len(node.args) > 1 and not isinstance(node.args[-1], (ast.Constant, ast.Starred)):
            yield scope.drop("dropped argument", node.args[-1], everything)


def swapped_arguments(scope: Scope) -> Iterator[Edit]:
    """Neighbours in a call, an unpacking or a returned tuple exchanged; so are what two keywords are given."""
    for node in scope.nodes:
        if isinstance(node, ast.Call):
            operator = "kernel arguments" if _is_slot(node.func) else "swapped arguments"
            yield from _neighbours(scope, operator, node.args)
            given = [keyword.value for keyword in node.keywords if keyword.arg is not None]
            yield from _neighbours(scope, operator, given)
        elif isinstance(node, ast.Tuple):
            parent = scope.parent(node)
            if isinstance(parent, ast.Return) or isinstance(node.ctx, ast.Store):
                yield from _neighbours(scope, "swapped halves", node.elts)


def _neighbours(scope: Scope, operator: str, parts: list[ast.expr]) -> Iterator[Edit]:
    for first, second in pairwise(parts):
        texts = {ast.unparse(first), ast.unparse(second)}
        is_literal = isinstance(first, ast.Constant) or isinstance(second, ast.Constant)
        if len(texts) > 1 and not is_literal and not isinstance(second, ast.Starred):
            yield scope.swap(operator, first, second)


def _is_slot(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id.startswith("slot")


def shifted_labels(scope: Scope) -> Iterator[Edit]:
    """Labels are shifted before they are passed on to what shifts them."""
    for node in _calls(scope):
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        for argument in given:
            name = argument.body if isinstance(argument, ast.IfExp) else argument
            if isinstance(name, ast.Name) and name.id.endswith("labels"):
                yield scope.edit("shifted labels", name, _SHIFTED.format(name.id))


def wrong_names(scope: Scope) -> Iterator[Edit]:
    """Another variable of the same function, or another attribute of the same object."""
    for node in scope.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in scope.variables:
            known = [name for name, line in scope.variables.items() if line < node.lineno]
            if _is_owner(scope, node):
                known = [name for name in known if name == node.id or name in _owners(scope)]
            yield from (scope.edit("wrong name", node, new) for new in _others(node.id, known))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield from _other_attributes(scope, node)


def _is_owner(scope: Scope, node: ast.AST) -> bool:
    return isinstance(scope.parent(node), ast.Attribute)


def _owners(scope: Scope) -> set[str]:
    """The variables that the function asks for attributes."""
    return {node.id for node in scope.nodes if isinstance(node, ast.Name) and _is_owner(scope, node)}


def _others(name: str, known: list[str]) -> list[str]:
    """The one that is mistaken most easily, and the one that was bound last before it."""
    pairs = {other for other in known if other != name and _is_pair(name, other)}
    rest = [other for other in known if other != name]
    before = rest[max(0, known.index(name) - 1)] if name in known and rest else None
    return list(dict.fromkeys([*sorted(pairs), *([before] if before else [])]))


def _is_pair(name: str, other: str) -> bool:
    for pair in _PAIRS:
        for one, two in (pair, pair[::-1]):
            if other == re.sub(rf"(?<![a-z]){one}(?![a-z])", two, name) != name:
                return True
    return False


def _other_attributes(scope: Scope, node: ast.Attribute) -> Iterator[Edit]:
    """The next one that the function asks the same object for, in the same way."""
    owner, is_called = ast.unparse(node.value), _is_called(scope, node)
    is_method = is_called and owner != "self"
    if is_method or (isinstance(node.value, ast.Name) and node.value.id not in (*scope.variables, "self")):
        return
    alike = dict.fromkeys(
        other.attr
        for other in scope.nodes
        if isinstance(other, ast.Attribute)
        and ast.unparse(other.value) == owner
        and isinstance(other.ctx, ast.Load)
        and _is_called(scope, other) == is_called
    )
    names = list(alike)
    if len(names) > 1:
        new = names[(names.index(node.attr) + 1) % len(names)]
        end = scope.source.end(node)
        yield Edit("wrong name", end - len(node.attr), end, new, node)


def _is_called(scope: Scope, node: ast.expr) -> bool:
    parent = scope.parent(node)
    return isinstance(parent, ast.Call) and parent.func is node


def _arguments(call: ast.Call) -> list[Spanned]:
    return [*call.args, *call.keywords]


def _calls(scope: Scope) -> Iterator[ast.Call]:
    return (node for node in scope.nodes if isinstance(node, ast.Call))
