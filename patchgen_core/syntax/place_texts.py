"""The shortest text of a pattern that only some statements of a function match."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from patchgen_core.syntax.nodes import COMPOUND
from patchgen_core.syntax.patterns import PatternError, find_statements, parse_pattern

_MANY = 3
"""Of more statements than this, a place names the first and the last."""
_WIDE = 60
"""A longer value is ``...`` in a place."""


def find_place_text(statements: Sequence[ast.stmt], function: ast.AST) -> str:
    """The shortest text that only these statements of a function match; empty where there is none."""
    for text in _place_texts(statements):
        try:
            matches = find_statements(parse_pattern(text), function)
        except PatternError:
            continue
        if [(match.nodes[0], match.nodes[-1]) for match in matches] == [(statements[0], statements[-1])]:
            return text
    return ""


def _place_texts(statements: Sequence[ast.stmt]) -> Iterator[str]:
    if len(statements) > _MANY:
        yield from (f"{first}\n...\n{last}" for first, last in zip(_texts(statements[0]), _texts(statements[-1])))
        return
    *others, last = statements
    for text in (_header_text(last), _short_text(last), ast.unparse(last)):
        if text:
            yield "\n".join([*(_short_text(other) or ast.unparse(other) for other in others), text])
    yield "\n".join(map(ast.unparse, statements))


def _texts(statement: ast.stmt) -> list[str]:
    return [_short_text(statement) or ast.unparse(statement), ast.unparse(statement)]


def _header_text(statement: ast.stmt) -> str:
    """The first line of a compound statement; empty for another."""
    if not isinstance(statement, COMPOUND):
        return ""
    return ast.unparse(statement).split("\n")[0]


def _short_text(statement: ast.stmt) -> str:
    """A statement with ``...`` for the arguments of the call that it makes, or for a long value; else empty."""
    value = getattr(statement, "value", None)
    if isinstance(statement, COMPOUND) or not isinstance(value, ast.expr):
        return ""
    if isinstance(statement, ast.Assign) and not isinstance(value, ast.Call) and len(ast.unparse(value)) > _WIDE:
        return f"{ast.unparse(statement).partition(' = ')[0]} = ..."
    if not isinstance(value, ast.Call) or not (value.args or value.keywords):
        return ""
    call = ast.Call(value.func, [ast.Constant(...)], [])
    if isinstance(statement, ast.AnnAssign):
        return f"{ast.unparse(statement.target)} = {ast.unparse(call)}"
    fields = {**dict(ast.iter_fields(statement)), "value": call}
    return ast.unparse(ast.copy_location(type(statement)(**fields), statement))
