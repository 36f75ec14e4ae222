"""How the names of an import are laid out: on one line, or with a line for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst

Import = cst.Import | cst.ImportFrom

_SHORT, _LONG = 79, 120
"""Between these lies how long lines may be; how long, the file's own lines tell."""
_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
_END = cst.TrailingWhitespace(newline=cst.Newline())


def code_of(node: cst.CSTNode) -> str:
    """A node as it is written."""
    return cst.Module([]).code_for_node(node)


def import_of(line: cst.CSTNode) -> Import | None:
    """The import on a line that holds no other statement; None for other lines."""
    statement = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    return statement if isinstance(statement, (cst.Import, cst.ImportFrom)) else None


def module_of(statement: Import) -> str:
    """The module that a statement imports from, with its dots; the first one that it imports."""
    if isinstance(statement, cst.Import):
        return code_of(statement.names[0].name)
    return "." * len(statement.relative) + (code_of(statement.module) if statement.module else "")


def names_of(statement: Import) -> list[cst.ImportAlias]:
    """The names of an import; none for ``*``."""
    return [] if isinstance(statement.names, cst.ImportStar) else list(statement.names)


def entry_of(name: cst.ImportAlias) -> str:
    """A name of an import as it is written."""
    return code_of(name.with_changes(comma=cst.MaybeSentinel.DEFAULT))


def width_of(module: cst.Module) -> int:
    """How long an import may be in a file: as long as its longest line, within bounds."""
    return max(_SHORT, min(_LONG, *map(len, module.code.splitlines() or [""])))


def has_line_each(statement: Import) -> bool:
    """Whether each name has a line of its own, and so have both brackets."""
    spaces = [_opening(statement), *(space_after(statement, name) for name in names_of(statement))]
    return all(isinstance(space, cst.ParenthesizedWhitespace) for space in spaces)


def has_comment(statement: Import, name: cst.ImportAlias) -> bool:
    """Whether a comment stands behind a name, or behind the opening bracket."""
    spaces = (_opening(statement), space_after(statement, name))
    return any(isinstance(space, cst.ParenthesizedWhitespace) and space.first_line.comment for space in spaces)


def _opening(statement: Import) -> Any:
    """What stands behind the opening bracket; None where there is none."""
    return getattr(getattr(statement, "lpar", None), "whitespace_after", None)


def space_after(statement: Import, name: cst.ImportAlias) -> Any:
    """What stands between a name, with its comma, and the next one or the closing bracket."""
    if isinstance(name.comma, cst.Comma):
        return name.comma.whitespace_after
    return getattr(getattr(statement, "rpar", None), "whitespace_before", None)


def with_names(
    line: cst.SimpleStatementLine, names: Sequence[cst.ImportAlias], indent: str, width: int
) -> cst.SimpleStatementLine:
    """An import of other names: on lines of their own where they are so or have comments, else laid out anew."""
    statement = import_of(line)
    assert statement is not None
    if isinstance(statement, cst.ImportFrom) and (has_line_each(statement) or "#" in code_of(statement)):
        return line.with_changes(body=[_on_lines(statement, names)])
    flat = [name.with_changes(comma=_COMMA) for name in names]
    flat[-1] = flat[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    if isinstance(statement, cst.Import):
        return line.with_changes(body=[statement.with_changes(names=flat)])
    one_line = line.with_changes(body=[statement.with_changes(names=flat, lpar=None, rpar=None)])
    before, after = (code_of(each.with_changes(leading_lines=())).rstrip() for each in (line, one_line))
    if len(indent) + len(after) <= max(width, len(before) if len(names) < len(names_of(statement)) else 0):
        return one_line
    inner = [name.with_changes(comma=cst.Comma(whitespace_after=_next_line("    "))) for name in names]
    inner[-1] = inner[-1].with_changes(comma=cst.Comma(whitespace_after=_next_line("")))
    opening = cst.LeftParen(_next_line("    ", line.trailing_whitespace))
    broken = statement.with_changes(names=inner, lpar=opening, rpar=cst.RightParen())
    return line.with_changes(body=[broken], trailing_whitespace=_END)


def _on_lines(statement: cst.ImportFrom, names: Sequence[cst.ImportAlias]) -> cst.ImportFrom:
    """A statement with other names, where comments stay behind theirs."""
    opening, old = _opening(statement), names_of(statement)
    closing = space_after(statement, old[-1])
    inner, outer = (
        space.last_line.value if isinstance(space, cst.ParenthesizedWhitespace) else default
        for space, default in ((opening, "    "), (closing, ""))
    )
    laid_out = []
    for name in names:
        is_last = name is names[-1]
        if name not in old or is_last != (name is old[-1]):
            space = space_after(statement, name) if name in old else None
            end = space.first_line if isinstance(space, cst.ParenthesizedWhitespace) else _END
            name = name.with_changes(comma=cst.Comma(whitespace_after=_next_line(outer if is_last else inner, end)))
        laid_out.append(name)
    return statement.with_changes(names=laid_out, rpar=statement.rpar if laid_out[-1] is old[-1] else cst.RightParen())


def _next_line(indent: str, end: cst.TrailingWhitespace = _END) -> cst.ParenthesizedWhitespace:
    """The end of a line in brackets, with its comment, and the start of the next one."""
    return cst.ParenthesizedWhitespace(end, indent=True, last_line=cst.SimpleWhitespace(indent))
