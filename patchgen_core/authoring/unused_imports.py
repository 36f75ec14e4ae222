"""Imports that a config's file no longer needs, once a replacement in it has another text."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from patchgen_core.authoring.config_imports import entry_of, guarded_block, laid_out, stands_alone
from patchgen_core.authoring.line_edits import LineEdit
from patchgen_core.syntax.index import ImportStatement, bound_name
from patchgen_core.syntax.source import SourceFile

_WORD = re.compile(r"\w+")


def removals(source: SourceFile, dropped: Iterable[str], is_used_elsewhere: Callable[[str], bool]) -> list[LineEdit]:
    """The edits that take imports out of a file.

    An import goes when its name occurs nowhere else in the file, be it in a string or comment, and nothing says that
    it is there for others: no ``as`` of the same name, no comment on its line.

    Args:
        source: the file, with the new text in it.
        dropped: names that a text used which stood there before.
        is_used_elsewhere: whether another file may import a name from this one.
    """
    names = set(dropped)
    edits = []
    for statement in _removable(source):
        gone = [
            a for a in statement.names if _is_unused(source, statement, a, names) and not is_used_elsewhere(_name(a))
        ]
        if gone:
            edits += _without(source, statement, gone)
    return edits


def _removable(source: SourceFile) -> Iterator[ImportStatement]:
    """The imports on lines of their own, of which one can go without leaving an empty block."""
    guarded = guarded_block(source) or []
    for block in (source.tree.body, guarded if len(guarded) > 1 else []):
        for statement in block:
            if isinstance(statement, (ast.Import, ast.ImportFrom)) and stands_alone(source, statement):
                yield statement


def _is_unused(source: SourceFile, statement: ImportStatement, alias: ast.alias, names: set[str]) -> bool:
    name = bound_name(statement, alias)
    if name not in names or alias.asname == alias.name or alias.name == "*":
        return False
    if getattr(statement, "module", "") == "__future__":
        return False
    first, last = alias.lineno, alias.end_lineno or alias.lineno
    if any("#" in source.lines[line - 1] for line in {first, last, statement.lineno}):
        return False
    own = _WORD.findall(source.segment(alias)).count(name)
    return _WORD.findall(source.text).count(name) == own


def _name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _without(source: SourceFile, statement: ImportStatement, gone: list[ast.alias]) -> list[LineEdit]:
    """A statement without some of its names."""
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    kept = [alias for alias in statement.names if alias not in gone]
    if not kept:
        blank = [
            not source.lines[at - 1].strip() if 0 < at <= len(source.lines) else True for at in (first - 1, last + 1)
        ]
        return [LineEdit(first, last + 1 + all(blank), ())]
    lines = [alias.lineno for alias in statement.names]
    if len(set(lines)) == len(lines) and lines[0] > first and last > lines[-1]:
        return [LineEdit(alias.lineno, alias.lineno + 1, ()) for alias in gone]
    if any("#" in source.lines[line - 1] for line in range(first, last + 1)):
        return []
    start = source.lines[first - 1][: statement.col_offset]
    if isinstance(statement, ast.ImportFrom):
        start += f"from {'.' * statement.level}{statement.module or ''} import "
    else:
        start += "import "
    if last > first or isinstance(statement, ast.Import):
        return [LineEdit(first, last + 1, tuple(laid_out(source, start, [entry_of(alias) for alias in kept])))]
    return [LineEdit(first, last + 1, (f"{start}{', '.join(map(entry_of, kept))}",))]
