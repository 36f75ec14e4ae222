"""A name that nothing defines: where in the config it stands, and what somebody may have meant by it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from patchgen_core.errors import Location, NameHint, PatchgenError, closest, did_you_mean
from patchgen_core.syntax.nodes import DEFINITIONS
from patchgen_core.syntax.source import SourceCache


def find_line_of_config(declared: Location, line: str, sources: SourceCache) -> Location:
    """The line of the definition declared at a place that reads as one that was generated; the place itself where no
    definition stands there, or none of its lines reads so."""
    try:
        source = sources.get(Path(declared.file))
    except PatchgenError:
        return declared
    for node in ast.walk(source.tree) if line.strip() in source.text else ():
        if isinstance(node, DEFINITIONS):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first <= declared.line <= node.lineno:
                rows = source.lines[node.lineno - 1 : node.end_lineno]
                numbers = (number for number, row in enumerate(rows, node.lineno) if row.strip() == line.strip())
                return Location(declared.file, next(numbers, declared.line))
    return declared


def suggest_name(text: str, line: int, name: str) -> NameHint:
    """A hint at what a name in a line of a module may mean: an attribute of ``self``, or a name that is near and bound
    there; empty where nothing is.

    Args:
        line: 1-based.
    """
    around = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    owner = next((node for node in around if isinstance(node, ast.ClassDef)), None)
    functions = [node for node in around if not isinstance(node, ast.ClassDef)]
    if name in ("self", "cls") and owner is not None and functions:
        cure = f"Give '{functions[0].name}' the first parameter '{name}': the instance or class that it is called on."
        return NameHint(cure, name)
    attributes = set(_attributes(owner)) if owner is not None and functions else set()
    if name in attributes:
        return _suggest(name, f"self.{name}")
    bound = {bound for function in functions for bound in _bound(function)}
    if hint := did_you_mean(name, bound - {name}):
        return hint
    near = closest(name, attributes)
    return _suggest(name, f"self.{near}") if near else NameHint("", name)


def _suggest(name: str, near: str) -> NameHint:
    return NameHint(f"Did you mean '{near}'?", name, near)


def _attributes(owner: ast.ClassDef) -> Iterator[str]:
    """The methods of a class, and the attributes of ``self`` that its methods set or read."""
    for node in ast.walk(owner):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr
    yield from (node.name for node in owner.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def _bound(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
