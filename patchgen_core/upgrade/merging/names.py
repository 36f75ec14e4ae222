"""Whether every name in a merged definition still stands for what it stood for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen_core.syntax.nodes import FUNCTIONS
from patchgen_core.syntax.scope_analysis import find_scopes
from patchgen_core.syntax.scopes import Reference
from patchgen_core.upgrade.merging.text import Text


@dataclass(frozen=True)
class LostName:
    """A name that the merged text uses and no longer binds, or binds only later.

    Attributes:
        name: the name.
        line: the line of the merged text that uses it.
        reason: what is wrong, in one sentence without its full stop.
    """

    name: str
    line: int
    reason: str


def find_lost_names(merged: Text, *sides: Text) -> list[LostName]:
    """Names of the merged text that the two sides bound and it does not, each once."""
    bound = set().union(*(_local_names(side) for side in sides))
    found: dict[str, LostName] = {}
    for reference in _references(merged):
        name = getattr(reference.node, "id", "")
        if name in bound and reference.scope.find(name) is None and not any(_uses_global(s, name) for s in sides):
            reason = f"'{name}' is used here, and nothing binds it any more: one side uses it, the other removed it"
            found.setdefault(name, LostName(name, reference.node.lineno, reason))
    early = [set(_early(side)) for side in sides]
    for (scope, name), line in _early(merged).items():
        if not any((scope, name) in known for known in early):
            reason = f"'{name}' is used here before it is assigned: each side has the statements in another order"
            found.setdefault(name, LostName(name, line, reason))
    return list(found.values())


def _references(text: Text) -> Iterator[Reference]:
    for reference in find_scopes(text.source.tree).references:
        if isinstance(reference.node, ast.Name):
            yield reference


def _local_names(text: Text) -> set[str]:
    """The names that functions bind anywhere in a definition."""
    return {name for name, scope in find_scopes(text.source.tree).bindings if scope.kind in ("function", "class")}


def _uses_global(text: Text, name: str) -> bool:
    return any(
        getattr(reference.node, "id", "") == name and reference.scope.find(name) is None
        for reference in _references(text)
    )


def _early(text: Text) -> dict[tuple[str, str], int]:
    """Local names that a function reads above the first line that binds them, with the line; loops are left out."""
    found: dict[tuple[str, str], int] = {}
    for function in ast.walk(text.source.tree):
        if isinstance(function, FUNCTIONS):
            arguments = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
            bound: dict[str, tuple[int, int]] = {}
            for name, place in _bindings(function):
                bound[name] = min(place, bound.get(name, place))
            for node in _own(function, skip_loops=True):
                if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or node.id in arguments:
                    continue
                if (node.lineno, node.col_offset) < bound.get(node.id, (0, 0)):
                    found.setdefault((function.name, node.id), node.lineno)
    return found


def _bindings(function: ast.AST) -> Iterator[tuple[str, tuple[int, int]]]:
    for node in _own(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, (node.lineno, node.col_offset)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield (alias.asname or alias.name).split(".")[0], (node.lineno, node.col_offset)
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield node.name, (node.lineno, node.col_offset)


def _own(function: ast.AST, skip_loops: bool = False) -> Iterator[ast.AST]:
    """The nodes of a function itself: not of functions in it, nor of comprehensions."""
    skipped = (*FUNCTIONS, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    loops = (ast.For, ast.AsyncFor, ast.While)
    nodes: list[ast.AST] = list(getattr(function, "body", []))
    while nodes:
        node = nodes.pop(0)
        yield node
        if not isinstance(node, skipped) and not (skip_loops and isinstance(node, loops)):
            nodes[:0] = ast.iter_child_nodes(node)
