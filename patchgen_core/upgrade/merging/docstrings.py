"""Three-way merge of docstrings: text, which is never a conflict."""

from __future__ import annotations

import ast

from patchgen_core.syntax.nodes import DEFINITIONS, docstring_of, without_docstring
from patchgen_core.upgrade.merging.edits import Edits
from patchgen_core.upgrade.merging.lines import merge_lines
from patchgen_core.upgrade.merging.text import Unit


def merge_docstring(edits: Edits, base: Unit, ours: Unit, theirs: Unit) -> None:
    """Apply upstream's change of a docstring to ours; where both changed it, by lines, and else ours stays."""
    old, mine, new = (docstring_of(unit.node) for unit in (base, ours, theirs))
    docstrings = [_docstring_text(unit) for unit in (base, ours, theirs)]
    if docstrings[2] in (docstrings[0], docstrings[1]) or not _is_apart(ours, mine):
        return
    if mine is None:
        if old is None and new is not None:
            _insert(edits, ours, theirs, new)
    elif docstrings[0] == docstrings[1]:
        text = "" if new is None else _text(theirs, new, ours.text.source.indent(mine.lineno)) + "\n"
        if text or without_docstring(ours.node):
            _replace(edits, mine, text)
    else:
        texts = [_text(u, d, "    ") for u, d in ((base, old), (ours, mine), (theirs, new)) if d is not None]
        merged, conflicts = merge_lines(texts[0], texts[1], texts[2]) if len(texts) == 3 else ("", None)
        if conflicts == ():
            indent = ours.text.source.indent(mine.lineno)
            _replace(edits, mine, indent + merged.removeprefix("    ") + "\n")
        else:
            name = getattr(ours.node, "name", "")
            edits.notes.append(f"upstream changed the docstring of {name}, and so did you: yours stays")


def _docstring_text(unit: Unit) -> str:
    return (ast.get_docstring(unit.node) or "") if isinstance(unit.node, DEFINITIONS) else ""


def _is_apart(unit: Unit, node: ast.stmt | None) -> bool:
    """Whether a docstring, or the first statement where there is none, has lines of its own."""
    body: list[ast.stmt] = getattr(unit.node, "body", [])
    first = body[0] if node is None else node
    following = body[1].lineno if node is not None and len(body) > 1 else 0
    header = unit.text.source.lines[first.lineno - 1][: first.col_offset]
    return not header.strip() and following != first.end_lineno


def _replace(edits: Edits, node: ast.stmt, text: str) -> None:
    starts = edits.text.source.line_starts
    edits.replace(starts[node.lineno - 1], starts[node.end_lineno or node.lineno], text)


def _insert(edits: Edits, ours: Unit, theirs: Unit, new: ast.stmt) -> None:
    source = ours.text.source
    body: list[ast.stmt] = getattr(ours.node, "body", [])
    start = source.line_starts[source.comment_line(body[0]) - 1]
    edits.replace(start, start, _text(theirs, new, source.indent(body[0].lineno)) + "\n")


def _text(unit: Unit, node: ast.stmt, indent: str) -> str:
    """The lines of a docstring, its first one moved to an indentation; its value stays."""
    return unit.text.moved_lines(node.lineno, node.end_lineno or node.lineno, indent)
