"""Upstream's change of the code at a place, merged into the code that an edit puts there."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen_core.codegen.quoted_code import NewCode
from patchgen_core.codegen.renaming import map_prefixes
from patchgen_core.syntax.edits import Edit as TextEdit
from patchgen_core.syntax.edits import apply_edits
from patchgen_core.syntax.nodes import docstring_of, string_lines, without_docstring
from patchgen_core.syntax.patterns import Match
from patchgen_core.syntax.source import shift
from patchgen_core.upgrade.carrying.carried_edit import DeclaredEdit
from patchgen_core.upgrade.carrying.definitions import ReleaseDefinition
from patchgen_core.upgrade.merging.merge import merge_definition
from patchgen_core.upgrade.merging.text import DefinitionText, read_text
from patchgen_core.upgrade.results import Merged

_HEAD = "def edit():\n"
_INDENT = "    "


@dataclass(frozen=True)
class PlaceMerge:
    """The code at a place, in the config's names: upstream's old and new, what the edit makes of it, and the merge."""

    base: str
    ours: str
    theirs: str
    merged: Merged

    @property
    def is_upstream(self) -> bool:
        """Whether upstream's new code is what the edit makes."""
        return ast.dump(ast.parse(self.ours)) == ast.dump(ast.parse(self.theirs))

    @property
    def code(self) -> str:
        """The merged code at column 0."""
        return _body(read_text(self.merged.text))


def merge_function(edit: DeclaredEdit, old: str, new: str) -> PlaceMerge:
    """The code of an edit's function with upstream's change, from ``old`` to ``new``, merged in."""
    ours = read_text(edit.text)
    docstring = docstring_of(ours.definition)
    first = ours.source.comment_line(without_docstring(ours.definition)[0])
    first = first if docstring is None else max(first, (docstring.end_lineno or 0) + 1)
    head = "\n".join(ours.source.lines[: first - 1]) + "\n"
    base, theirs = (_unmapped(edit, text) for text in (old, new))
    sides = [head + _indented(text) for text in (base, theirs)]
    return PlaceMerge(base, _body(ours), theirs, merge_definition(sides[0], edit.text, sides[1]))


def merge_code(edit: DeclaredEdit, ours: str, old: str, new: str) -> PlaceMerge:
    """Code in quotes with upstream's change merged in; ``ours`` is what it makes of the old code."""
    base, mine, theirs = (_unmapped(edit, text) for text in (old, ours, new))
    sides = [_HEAD + _indented(text) for text in (base, mine, theirs)]
    return PlaceMerge(base, mine, theirs, merge_definition(*sides))


def edited_code(edit: DeclaredEdit, definition: ReleaseDefinition, match: Match, node: ast.stmt | ast.expr) -> str:
    """What code in quotes makes of a statement, or an expression, that its place is in."""
    source = definition.text.source
    code = NewCode(edit.code, edit.pattern.statements, edit.patch, edit.label, source)
    if edit.pattern.expression is None or code.expression is None:
        return code.text(match)
    parents = {id(child): outer for outer in ast.walk(definition.searched) for child in ast.iter_child_nodes(outer)}
    start = source.start(node)
    edits = code.edits(match, parents.get(id(match.nodes[0])))
    moved = [TextEdit(one.start - start, one.end - start, one.new) for one in edits]
    text = apply_edits(source.segment(node), moved)[0]
    return "\n".join(shift(text.split("\n"), source.indent(node.lineno), "", {0}))


def segment(definition: ReleaseDefinition, node: ast.stmt | ast.expr) -> str:
    """The text of a statement or an expression at column 0."""
    source = definition.text.source
    return "\n".join(shift(source.segment(node).split("\n"), source.indent(node.lineno), "", {0}))


def _unmapped(edit: DeclaredEdit, text: str) -> str:
    """Upstream's code in the names that the config uses."""
    return map_prefixes(text, {new: old for old, new in edit.patch.name_map.items()})


def _indented(text: str) -> str:
    keep = {number - 1 for number in string_lines(ast.parse(text))}
    return "\n".join(shift(text.rstrip("\n").split("\n"), "", _INDENT, keep)) + "\n"


def _body(text: DefinitionText) -> str:
    body = without_docstring(text.definition)
    source = text.source
    first, docstring = source.comment_line(body[0]), docstring_of(text.definition)
    first = first if docstring is None else max(first, (docstring.end_lineno or 0) + 1)
    return text.moved_lines(first, source.last_line(body[-1]))
