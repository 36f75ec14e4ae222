"""Imports that a config's file no longer needs, once a replacement in it has another text.

libcst's own ``RemoveImportsVisitor`` knows of no use in a string or comment, nor of other files; and it gives the last
name of a statement another layout.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

import libcst as cst

from patchgen_core.authoring.edits.import_layout import (
    code_of,
    entry_of,
    has_comment,
    has_line_each,
    import_of,
    module_of,
    names_of,
    width_of,
    with_names,
)
from patchgen_core.authoring.edits.imports import guard_of

_WORD = re.compile(r"\w+")


def remove_unused_imports(
    module: cst.Module, names: Iterable[str], is_used_elsewhere: Callable[[str], bool]
) -> cst.Module:
    """A file without some of its imports.

    An import goes when its name occurs nowhere else in the file, be it in a string or comment, and nothing says that
    it is there for others: no ``as`` of the same name, no comment on its line, no other file that may import it.
    Only ``names`` may go, those that a text used which stood there before.
    """
    counts = Counter(_WORD.findall(module.code))
    unused = {name for name in names if counts[name] and not is_used_elsewhere(name)}
    width = width_of(module)

    def is_unused(name: cst.ImportAlias) -> bool:
        words = _WORD.findall(entry_of(name))
        bound = words[-1] if name.asname else words[0]
        is_for_others = name.asname is not None and code_of(name.name) == bound
        return bound in unused and not is_for_others and counts[bound] == words.count(bound)

    def without_unused(line: cst.BaseStatement) -> cst.BaseStatement | None:
        statement = import_of(line)
        if not isinstance(line, cst.SimpleStatementLine) or statement is None or _has_comments(line):
            return line
        used = [name for name in names_of(statement) if not is_unused(name) or has_comment(statement, name)]
        if len(used) == len(names_of(statement)) or module_of(statement) == "__future__":
            return line
        return with_names(line, used, "", width) if used else None

    guard = guard_of(module)
    if guard is not None:
        block = cst.ensure_type(guard.body, cst.IndentedBlock)
        body, above = _edit_lines(block.body, without_unused, is_below_text=True)
        if body:
            new = guard.with_changes(body=block.with_changes(body=body, footer=[*above, *block.footer]))
            module = module.with_changes(body=[new if s is guard else s for s in module.body])
    is_below_text = bool(module.header) and module.header[-1].comment is not None
    body, above = _edit_lines(module.body, without_unused, is_below_text)
    return module.with_changes(body=body, footer=[*above, *module.footer])


def _has_comments(line: cst.SimpleStatementLine) -> bool:
    """Whether a line ends with a comment, or has one in it that is not about one name."""
    statement = import_of(line)
    is_mixed = statement is not None and not has_line_each(statement) and "#" in code_of(statement)
    return line.trailing_whitespace.comment is not None or is_mixed


def _edit_lines(
    body: Iterable[cst.BaseStatement],
    edit: Callable[[cst.BaseStatement], cst.BaseStatement | None],
    is_below_text: bool,
) -> tuple[list[cst.BaseStatement], list[cst.EmptyLine]]:
    """The statements of a block after an edit of each, and the comments that are left below them.

    Where a statement goes, the comments above it stay, and of empty lines on both sides one goes with it.
    ``is_below_text`` says that a line of text stands right above the block.
    """
    statements: list[cst.BaseStatement] = []
    above: list[cst.EmptyLine] = []
    has_gap = False  # whether a statement went that stood below an empty line
    for statement in body:
        own = list(getattr(statement, "leading_lines", ()))
        above += own[1:] if has_gap and own and own[0].comment is None else own
        has_gap, new = False, edit(statement)
        if new is None:
            has_gap = above[-1].comment is None if above else not (statements or is_below_text)
        else:
            statements.append(new.with_changes(leading_lines=above))
            above = []
    return statements, above
