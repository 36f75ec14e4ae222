"""Keywords that a call names and that ``**kwargs`` holds as well, under the same name and with the same value."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.syntax.nodes import FUNCTIONS, Definition

_READING = ("get", "keys", "items", "values")


def is_passed_on(definition: Definition, call: ast.Call, keyword: ast.keyword, starred: str) -> bool:
    """Whether a keyword of a call has the value that a function's ``**starred`` holds under the keyword's name.

    The function must take it from there once, as ``name = kwargs["name"]``, or as ``name = kwargs.get("name")`` with
    an ``assert`` that it is not None; and it must write neither the name nor ``kwargs`` otherwise.
    """
    if not isinstance(definition, FUNCTIONS) or not isinstance(keyword.value, ast.Name) or keyword.arg is None:
        return False
    if not only_reads(definition, starred) or not _is_bound_once(definition, keyword.value.id):
        return False
    before = [node for node in definition.body if (node.end_lineno or 0) < call.lineno]
    places = [n for n, node in enumerate(before) if _entry(node, keyword.value.id, starred) == keyword.arg]
    if len(places) != 1:
        return False
    value = before[places[0]].value  # type: ignore[attr-defined]
    return isinstance(value, ast.Subscript) or any(
        _says_present(node, keyword.value.id) for node in before[places[0] + 1 :]
    )


def only_reads(definition: Definition, starred: str) -> bool:
    """Whether a function has a ``**starred`` that it passes on and reads entries of, and does nothing else with."""
    if not isinstance(definition, FUNCTIONS) or definition.args.kwarg is None:
        return False
    if definition.args.kwarg.arg != starred:
        return False
    reading = {id(name) for node in ast.walk(definition) for name in _read_names(node)}
    names = (node for node in ast.walk(definition) if isinstance(node, ast.Name) and node.id == starred)
    return all(id(name) in reading for name in names)


def _read_names(node: ast.AST) -> Iterator[ast.expr]:
    """The names that a node reads without letting anything else change what they stand for."""
    if isinstance(node, ast.keyword) and node.arg is None:
        yield node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _READING:
        yield node.func.value
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield node.value
    elif isinstance(node, ast.Compare):
        yield from (c for op, c in zip(node.ops, node.comparators) if isinstance(op, (ast.In, ast.NotIn)))


def _is_bound_once(definition: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """Whether one statement assigns a name, and nothing binds it otherwise: a parameter, an import, an ``except``."""
    count = 0
    for node in ast.walk(definition):
        if isinstance(node, ast.Name) and node.id == name:
            count += not isinstance(node.ctx, ast.Load)
        elif isinstance(node, ast.alias):
            count += 2 * (name == (node.asname or node.name.partition(".")[0]))
        elif name in (getattr(node, field, None) for field in ("arg", "name", "rest")):
            count += 2 * (not isinstance(node, ast.keyword))
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            count += 2 * (name in node.names)
    return count == 1


def _entry(node: ast.stmt, name: str, starred: str) -> str:
    """The key of the entry that a statement assigns to a name; empty for another statement."""
    if not isinstance(node, ast.Assign) or [ast.unparse(target) for target in node.targets] != [name]:
        return ""
    value, key = node.value, None
    if isinstance(value, ast.Subscript) and ast.unparse(value.value) == starred:
        key = value.slice
    elif isinstance(value, ast.Call) and ast.unparse(value.func) == f"{starred}.get" and not value.keywords:
        default = value.args[1:]
        key = value.args[0] if all(ast.unparse(other) == "None" for other in default) and value.args else None
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def _says_present(node: ast.stmt, name: str) -> bool:
    """Whether a statement does not let a function go on without a value."""
    if isinstance(node, ast.Assert):
        return ast.unparse(node.test) == f"{name} is not None"
    ends = isinstance(node, ast.If) and isinstance(node.body[-1], (ast.Raise, ast.Return))
    return isinstance(node, ast.If) and ends and ast.unparse(node.test) == f"{name} is None"
