"""What a config says of its patches and of itself: names of targets, the version that it is pinned to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import libcst as cst

from patchgen_core.authoring.edits.config_file import Changes, EditedFile


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


def rename_undecorated_class(file: EditedFile, old: str, new: str) -> Changes:
    """The changes that have calls of ``drop_decorators`` name a class anew, where they do by a text."""

    def renamed(name: str) -> str:
        cls, dot, method = name.partition(".")
        return f"{new}{dot}{method}" if cls == old else name

    changes: dict[cst.CSTNode, Callable[[Any], cst.CSTNode | cst.FlattenSentinel[Any]]] = {}
    for call in _calls(file):
        is_drop = isinstance(call.func, cst.Attribute) and call.func.attr.value == "drop_decorators"
        if is_drop and call.args:
            changes.update(_renaming(call.args[0].value, renamed))
    return changes


def _calls(file: EditedFile, line: int = 0) -> Iterator[cst.Call]:
    """The calls of a file, or those that a line starts or lies in."""
    for node, position in file.positions.items():
        if isinstance(node, cst.Call) and (not line or position.start.line <= line <= position.end.line):
            yield node


def _renaming(value: cst.BaseExpression, renamed: Callable[[str], str]) -> Changes:
    """The change of a text between two quotes, on one line; none of what is written in another way."""
    if not isinstance(value, cst.SimpleString) or len(value.quote) > 1 or value.prefix or "\\" in value.value:
        return {}
    text = f"{value.quote}{renamed(value.raw_value)}{value.quote}"
    return {value: lambda updated: updated.with_changes(value=text)}
