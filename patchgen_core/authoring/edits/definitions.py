"""Another text for a class or function of a config; the decorators that declare patches stay."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from patchgen_core.authoring.edits.config_file import Changes, EditedFile
from patchgen_core.syntax.nodes import string_lines
from patchgen_core.syntax.source import shift

Definition = cst.FunctionDef | cst.ClassDef

_MARKERS = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")


@dataclass(frozen=True)
class DefinitionText(cst.BaseStatement):
    """A definition as it is to be written: a text with conflict markers, for one, has no tree.

    ``text`` is what stands below the decorators, with ``\n`` newlines and none at its end.
    """

    leading_lines: Sequence[cst.EmptyLine]
    decorators: Sequence[cst.Decorator]
    lines_after_decorators: Sequence[cst.EmptyLine]
    text: str

    def _visit_and_replace_children(self, visitor: Any) -> DefinitionText:
        return self

    def _codegen_impl(self, state: Any) -> None:
        for node in (*self.leading_lines, *self.decorators, *self.lines_after_decorators):
            node._codegen(state)
        state.add_token(self.text.replace("\n", state.default_newline))
        state.add_token(state.default_newline)


def replace_definition(file: EditedFile, line: int, old: str, new: str) -> Changes | None:
    """The change that makes one text of another; lines that are the same in both stay as the file has them.
    Both stand at column 0, with their own decorators or with none; conflict markers in ``new`` stay at column 0.

    Returns:
        None when something else than ``old`` has its ``def`` or ``class`` on the line.
    """
    there = _find(file, line)
    if there is None:
        return None
    old_lines, new_lines = old.split("\n"), new.split("\n")
    own = _own_decorators(there, old_lines)
    count = sum(len(_lines(decorator)) for decorator in own)
    indent = file.module.code.split("\n")[line - 1][: file.positions[there].start.column]
    in_file = _body_lines(there, indent)
    if _stripped(in_file) != _stripped(old_lines[count:]):
        return None
    lines = shift(new_lines, "", indent, _kept_lines(new))
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes():
        if kind == "equal" and i >= count:
            lines[k:m] = in_file[i - count : j - count]
    if old_lines[:count] == new_lines[:count] and not new_lines[count].startswith("@"):
        own, lines = [], lines[count:]
    text = "\n".join(lines)

    def change(updated: Definition) -> DefinitionText:
        staying = [new for old, new in zip(there.decorators, updated.decorators) if old not in own]
        return DefinitionText(updated.leading_lines, staying, updated.lines_after_decorators, text)

    return {there: change}


def _find(file: EditedFile, line: int) -> Definition | None:
    for node, position in file.positions.items():
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and position.start.line == line:
            return node
    return None


def _own_decorators(there: Definition, lines: Sequence[str]) -> list[cst.Decorator]:
    """The decorators that a definition's text starts with: those that declare patches are none of it."""
    own: list[cst.Decorator] = []
    left = _stripped(lines)
    for decorator in there.decorators:
        text = _lines(decorator)
        if left[: len(text)] == text:
            own.append(decorator)
            left = left[len(text) :]
    return own


def _lines(decorator: cst.Decorator) -> list[str]:
    return _stripped(cst.Module([]).code_for_node(decorator.with_changes(leading_lines=())).rstrip().split("\n"))


def _stripped(lines: Sequence[str]) -> list[str]:
    return [line.strip() for line in lines]


def _body_lines(definition: Definition, indent: str) -> list[str]:
    """The lines of a definition as they are in its file, from its ``def`` or ``class`` on."""
    bare = definition.with_changes(decorators=(), leading_lines=(), lines_after_decorators=())
    if not indent:
        return cst.Module([bare]).code.splitlines()
    block = cst.IndentedBlock([bare], indent=indent)
    return cst.Module([cst.If(cst.Name("_"), block)]).code.splitlines()[1:]


def _kept_lines(text: str) -> set[int]:
    """The numbers of lines that stay where they are: those inside of strings, or conflict markers."""
    try:
        return {number - 1 for number in string_lines(ast.parse(text))}
    except SyntaxError:
        return {number for number, line in enumerate(text.split("\n")) if line.startswith(_MARKERS)}
