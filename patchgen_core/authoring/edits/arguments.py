"""Other texts for the arguments of a call in a config."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import libcst as cst

from patchgen_core.authoring.edits.config_file import Changes, EditedFile

_POSITIONS = {
    "replace_code": ("old", "new"),
    "delete_code": ("code",),
    "add_parameter": ("parameter",),
    "remove_parameter": ("parameter",),
}
"""The arguments that may be given by position, behind the target; edits that targets share have none."""


def change_argument(file: EditedFile, line: int, call: str, name: str, old: str, new: str) -> Changes | None:
    """The change of an argument that says ``old`` of a call that a line lies in.

    Returns:
        None where no such call says it by a literal text.
    """
    names = _POSITIONS.get(call, ())
    for node in _calls_of(file, line, call):
        given = [argument for argument in node.args if argument.keyword is None]
        named = {argument.keyword.value: argument for argument in node.args if argument.keyword is not None}
        named |= dict(zip(reversed(names[: len(given)]), reversed(given)))
        value = named[name].value if name in named else None
        if value is not None and _says(value, old):
            return {value: _Literal(_literal(new, value))}
    return None


def rename_call(file: EditedFile, line: int, old: str, new: str) -> Changes | None:
    """The change that calls another method where a line calls one; None where it calls no such method."""
    for node in _calls_of(file, line, old):
        assert isinstance(node.func, cst.Attribute)
        return {node.func.attr: lambda updated: updated.with_changes(value=new)}
    return None


def _calls_of(file: EditedFile, line: int, method: str) -> Iterator[cst.Call]:
    for node, position in file.positions.items():
        is_call = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
        if is_call and position.start.line <= line <= position.end.line and node.func.attr.value == method:  # type: ignore[attr-defined]
            yield node  # type: ignore[misc]


def _says(value: cst.BaseExpression, text: str) -> bool:
    return isinstance(value, (cst.SimpleString, cst.ConcatenatedString)) and value.evaluated_value == text


@dataclass(frozen=True)
class _Literal:
    """Puts a literal into the place of a value."""

    text: str

    def __call__(self, updated: Any) -> cst.SimpleString:
        return cst.SimpleString(self.text)


def _literal(text: str, old: cst.BaseExpression) -> str:
    """A text as a literal, with the quotes of the one that it takes the place of."""
    return text_literal(text, old.quote[-1] if isinstance(old, cst.SimpleString) else '"')


def text_literal(text: str, mark: str = '"') -> str:
    """A piece of source as a literal, on lines of its own where it has several."""
    escaped = textwrap.dedent(text).strip().replace("\\", "\\\\").replace(mark, f"\\{mark}")
    if "\n" not in escaped:
        return f"{mark}{escaped}{mark}"
    return "\n".join([mark * 3, textwrap.indent(escaped, "    "), f"    {mark * 3}"])
