"""Definitions, blocks and decorators of a syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Positioned = ast.stmt | ast.expr | ast.alias | ast.arg | ast.keyword
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (ast.ClassDef, *FUNCTIONS)
_TRIES = (ast.Try, getattr(ast, "TryStar", ast.Try))  # Python 3.11
COMPOUND = (ast.If, *_TRIES, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Match)


def string_lines(node: ast.AST) -> set[int]:
    """Lines below ``node`` that start inside a string literal, where white space is part of a value."""
    inside: set[int] = set()
    nodes = [node]
    while nodes:
        child = nodes.pop()
        first, last = getattr(child, "lineno", 0), getattr(child, "end_lineno", 1)
        if first == last:
            continue  # it has no lines below its first
        if isinstance(child, (ast.JoinedStr, ast.Constant)):
            inside.update(range(first + 1, last + 1))  # no other constant has several lines
        else:
            nodes += ast.iter_child_nodes(child)
    return inside


def is_filler(statement: ast.stmt) -> bool:
    """Whether a statement is ``pass`` or ``...``."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(statement, ast.Pass) or (isinstance(value, ast.Constant) and value.value is Ellipsis)


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The statement lists of a compound statement: body, else, finally, and each handler's and case's."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block:
            yield block
    for name in ("handlers", "cases"):
        for part in getattr(node, name, ()):
            yield part.body


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body and of its ``if``, ``try``, ``with`` and loops, but of no definition."""
    for statement in body:
        yield statement
        if isinstance(statement, COMPOUND):
            for block in blocks(statement):
                yield from statements(block)


def all_methods(node: ast.AST) -> list[Function]:
    """The methods in a class's own body, its ``if`` blocks included, not those of nested classes."""
    return [s for s in statements(getattr(node, "body", [])) if isinstance(s, FUNCTIONS)]


def methods(node: Definition, name: str, accessor: str = "") -> list[Function]:
    """The definitions of one method: of several in one block the last, and one for each branch.

    Overload stubs are no definitions; ``accessor`` picks a property's setter or deleter.
    """
    if not isinstance(node, ast.ClassDef):
        return []
    return [f for f in last_definitions(node.body, name, accessor) if isinstance(f, FUNCTIONS)]


def last_definitions(body: list[ast.stmt], name: str, accessor: str = "") -> list[Definition]:
    """The definitions of a name that count: of several in one block the last, and one for each branch."""
    return list(_last_in(body, name, accessor))


def _last_in(block: list[ast.stmt], name: str, accessor: str) -> Iterator[Definition]:
    last: Definition | None = None
    for statement in block:
        if isinstance(statement, DEFINITIONS):
            if statement.name == name and _is_accessor(statement, accessor):
                last = statement
        elif isinstance(statement, COMPOUND):
            for inner in blocks(statement):
                yield from _last_in(inner, name, accessor)
    if last is not None:
        yield last


def _is_accessor(definition: Definition, accessor: str) -> bool:
    """Whether a definition is that accessor of a property, or for none is neither one nor an overload."""
    marks = [getattr(d, "attr", None) or getattr(d, "id", "") for d in definition.decorator_list]
    kind = next((mark for mark in marks if mark in ("setter", "deleter")), "")
    return kind == accessor and "overload" not in marks


def own_method(node: ast.ClassDef, name: str) -> Function | None:
    """The one definition of a method in a class's own body; None when there is none or there are several."""
    definitions = methods(node, name)
    return definitions[0] if len(definitions) == 1 else None


def has_elif(node: ast.If) -> bool:
    """Whether what an ``if`` does otherwise is an ``elif``."""
    only = node.orelse[0] if len(node.orelse) == 1 else None
    return isinstance(only, ast.If) and only.col_offset == node.col_offset


def decorator_name(decorator: ast.expr) -> str:
    """A decorator without its arguments and the module it comes from."""
    return last_name(decorator.func if isinstance(decorator, ast.Call) else decorator)


def last_name(node: ast.AST) -> str:
    """The last part of a dotted name; empty for any other expression."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def called_name(node: ast.AST) -> str:
    """The last part of what a call calls; empty for what is no call."""
    return last_name(node.func) if isinstance(node, ast.Call) else ""


def decorator_names(node: Definition) -> set[str]:
    """The names of a definition's decorators."""
    return {decorator_name(decorator) for decorator in node.decorator_list}


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """What a function's body holds, without the functions and classes defined in it."""
    waiting = list(ast.iter_child_nodes(node))[::-1]
    while waiting:
        child = waiting.pop()
        yield child
        if not isinstance(child, (*DEFINITIONS, ast.Lambda)):
            waiting += list(ast.iter_child_nodes(child))[::-1]


def list_nodes(node: ast.AST) -> list[ast.AST]:
    """A node and all that is below it, in the order of :func:`ast.walk`, which takes longer."""
    nodes = [node]
    for each in nodes:
        for name in each._fields:
            value = getattr(each, name, None)
            if isinstance(value, ast.AST):
                nodes.append(value)
            elif isinstance(value, list):
                nodes += [child for child in value if isinstance(child, ast.AST)]
    return nodes


def docstring_of(node: ast.AST) -> ast.stmt | None:
    """The statement that is a definition's docstring."""
    body: list[ast.stmt] = getattr(node, "body", [])
    value = body[0].value if isinstance(node, DEFINITIONS) and body and isinstance(body[0], ast.Expr) else None
    return body[0] if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def without_docstring(node: ast.AST) -> list[ast.stmt]:
    """A definition's statements but for the docstring."""
    body: list[ast.stmt] = getattr(node, "body", [])
    return body if docstring_of(node) is None else body[1:]


def guarded_lines(body: list[ast.stmt], guarded: bool = False) -> set[int]:
    """The lines of imports whose failure the code handles."""
    lines: set[int] = set()
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)) and guarded:
            lines.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
        elif isinstance(statement, (*DEFINITIONS, *COMPOUND)):
            for block in blocks(statement):
                lines |= guarded_lines(block, guarded or _catches(statement, block))
    return lines


def _catches(statement: ast.stmt, block: list[ast.stmt]) -> bool:
    """Whether a statement handles the failure of an import in one of its blocks."""
    if isinstance(statement, ast.With):
        return any("suppress" in ast.unparse(item) for item in statement.items)
    handlers = statement.handlers if isinstance(statement, ast.Try) and block is statement.body else []
    return any(_catches_import(handler.type) for handler in handlers)


def _catches_import(handler: ast.expr | None) -> bool:
    if handler is None:
        return True
    names = {n.id for n in ast.walk(handler) if isinstance(n, ast.Name)}
    return bool(names & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
