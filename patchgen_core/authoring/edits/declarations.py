"""What a config says of its patches and of itself: names of targets, the version that it is pinned to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import libcst as cst

from patchgen_core.authoring.edits.config_file import Changes, EditedFile
from patchgen_core.authoring.edits.statements import replace_statement


def pin_version(file: EditedFile, line: int, version: str) -> Changes:
    """The change that pins the config that is made at a line to another version, where it is pinned by a text."""
    arguments = (argument for call in _calls(file, line) for argument in call.args)
    pins = (a for a in arguments if a.keyword is not None and a.keyword.value == "transformers_version")
    return next((_renaming(pin.value, lambda _: version) for pin in pins), {})


def rename_target(file: EditedFile, line: int, old: str, new: str) -> Changes:
    """The change that has the patch that is declared at a line name its target anew, where it does by a text."""
    values = (argument.value for call in _calls(file, line) for argument in call.args)
    names = (value for value in values if isinstance(value, cst.SimpleString) and value.evaluated_value == old)
    return next((_renaming(name, lambda _: new) for name in names), {})


def change_names(file: EditedFile, line: int, call: str, names: Mapping[str, str], target: str = "") -> Changes | None:
    """The changes that have a call at a line say other names, and leave those out whose new name is empty.

    A call that names nothing any more beside its target goes, with the comments above it.

    Returns:
        None where no such call says them by texts, or where one that goes is no statement of its own.
    """
    for node in _calls(file, line):
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == call:
            texts = [text for argument in node.args if (text := _text(argument)) is not None]
            if not names.keys() <= set(texts):
                continue
            rest = [argument for argument in node.args if names.get(_text(argument) or "", "kept")]
            if len(rest) == len(node.args) or any(_text(argument) != target for argument in rest):
                return {node: _OtherNames(names)}
            return replace_statement(file, line, ())
    return None


@dataclass(frozen=True)
class _OtherNames:
    """Puts other names into a call."""

    names: Mapping[str, str]

    def __call__(self, updated: cst.Call) -> cst.Call:
        kept = [argument for argument in updated.args if self.names.get(_text(argument) or "", "kept")]
        arguments = [self._renamed(argument) for argument in kept]
        if len(arguments) < len(updated.args):
            arguments[-1] = arguments[-1].with_changes(comma=updated.args[-1].comma)
        return updated.with_changes(args=arguments)

    def _renamed(self, argument: cst.Arg) -> cst.Arg:
        new = self.names.get(_text(argument) or "")
        change = _renaming(argument.value, lambda _: new) if new else {}
        return argument.with_changes(value=change[argument.value](argument.value)) if change else argument


def _text(argument: cst.Arg) -> str | None:
    """What an argument says that can be rewritten."""
    value = argument.value
    is_text = isinstance(value, cst.SimpleString) and bool(_renaming(value, str))
    return value.raw_value if is_text and isinstance(value, cst.SimpleString) else None


def _calls(file: EditedFile, line: int) -> Iterator[cst.Call]:
    """The calls that a line of a file starts or lies in."""
    for node, position in file.positions.items():
        if isinstance(node, cst.Call) and position.start.line <= line <= position.end.line:
            yield node


def _renaming(value: cst.BaseExpression, renamed: Callable[[str], str]) -> Changes:
    """The change of a text between two quotes, on one line; none of what is written in another way."""
    if not isinstance(value, cst.SimpleString) or len(value.quote) > 1 or value.prefix or "\\" in value.value:
        return {}
    text = f"{value.quote}{renamed(value.raw_value)}{value.quote}"
    return {value: lambda updated: updated.with_changes(value=text)}
