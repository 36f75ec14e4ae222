"""Changes of the ``if TYPE_CHECKING:`` block of a file."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import TypeGuard

import libcst as cst

from patchgen_core.authoring.edits.import_layout import (
    entry_of,
    has_comment,
    import_of,
    names_of,
    with_names,
)
from patchgen_core.authoring.edits.imports import add_imports, is_guard, with_import
from patchgen_core.authoring.edits.unused_imports import remove_unused_imports
from patchgen_core.syntax.index import ImportStatement, bound_name

_TESTS = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
_BLANK = cst.EmptyLine(indent=False)


def guarded_imports(tree: ast.Module) -> list[tuple[str, str, str]]:
    """What blocks of nothing but imports import: each as the module, the name there, and the name here.

    There is no module for ``import name``, nor for what comes from the file's own package.
    """
    blocks = (s.body for s in tree.body if isinstance(s, ast.If) and ast.unparse(s.test) in _TESTS and not s.orelse)
    imports = [s for block in blocks if all(map(_is_import, block)) for s in block if _is_import(s)]
    return [
        (getattr(statement, "module", "") or "", alias.name, bound_name(statement, alias))
        for statement in imports
        for alias in statement.names
        if not getattr(statement, "level", 0)
    ]


def _is_import(statement: ast.stmt) -> TypeGuard[ImportStatement]:
    return isinstance(statement, (ast.Import, ast.ImportFrom))


def change_guard(module: cst.Module, statements: Sequence[str], gone: Collection[str], width: int) -> cst.Module:
    """A file whose block imports more, each statement one name, and no longer what ``gone`` names.

    A block that has nothing left goes. An import with a comment stays, and so does a block that holds anything else.
    ``width`` is how long a line may be.
    """
    guard = _find_guard(module)
    body = list(cst.ensure_type(guard.body, cst.IndentedBlock).body) if guard is not None else []
    indent = module.default_indent
    lines = [line for line in (_without(line, gone, indent, width) for line in body) if line is not None]
    for line in map(cst.parse_statement, sorted(statements)):
        lines = with_import(lines, cst.ensure_type(line, cst.SimpleStatementLine), indent, width)
    if not lines:
        return module if guard is None else _without_guard(module, guard)
    comments = [line for line in getattr(lines[0], "leading_lines", ()) if line.comment is not None]
    lines[0] = lines[0].with_changes(leading_lines=comments)
    if guard is None:
        return _with_guard(module, cst.IndentedBlock(lines))
    new = guard.with_changes(body=guard.body.with_changes(body=lines))
    return module.with_changes(body=[new if statement is guard else statement for statement in module.body])


def _find_guard(module: cst.Module) -> cst.If | None:
    """The first block that holds nothing but imports: one that declares patches is executed."""
    guards = (s for s in module.body if isinstance(s, cst.If) and is_guard(s) and s.orelse is None)
    return next((guard for guard in guards if all(map(import_of, guard.body.body))), None)


def _without(line: cst.BaseStatement, gone: Collection[str], indent: str, width: int) -> cst.BaseStatement | None:
    statement = import_of(line)
    if not isinstance(line, cst.SimpleStatementLine) or statement is None:
        return line
    names = names_of(statement)
    is_commented = line.trailing_whitespace.comment is not None or any(n.comment for n in line.leading_lines)
    left = [n for n in names if _bound(n) not in gone or is_commented or has_comment(statement, n)]
    if len(left) == len(names):
        return line
    return with_names(line, left, indent, width) if left else None


def _bound(name: cst.ImportAlias) -> str:
    there, _, here = entry_of(name).partition(" as ")
    return here.strip() or there.partition(".")[0].strip()


def _without_guard(module: cst.Module, guard: cst.If) -> cst.Module:
    module = module.with_changes(body=[statement for statement in module.body if statement is not guard])
    return remove_unused_imports(module, ["TYPE_CHECKING"], lambda name: False)


def _with_guard(module: cst.Module, block: cst.IndentedBlock) -> cst.Module:
    """A file with a new block, below the imports that it begins with."""
    if not any("TYPE_CHECKING" in map(_bound, names_of(s)) for s in map(import_of, module.body) if s is not None):
        module = add_imports(module, ["from typing import TYPE_CHECKING"])
    body = list(module.body)
    at = next((n for n, line in enumerate(body) if not _is_head(line)), len(body))
    rest = body[at:]
    if rest and not any(line.comment is None for line in rest[0].leading_lines):
        rest[0] = rest[0].with_changes(leading_lines=[_BLANK, *rest[0].leading_lines])
    guard = cst.If(cst.Name("TYPE_CHECKING"), block, leading_lines=[_BLANK])
    return module.with_changes(body=[*body[:at], guard, *rest])


def _is_head(line: cst.BaseStatement | cst.SimpleStatementLine) -> bool:
    """Whether a line is an import or a docstring."""
    if import_of(line) is not None:
        return True
    part = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    return isinstance(part, cst.Expr) and isinstance(part.value, (cst.SimpleString, cst.ConcatenatedString))
