"""Markup that is put together from text without escaping anything by hand."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import TypeAlias

from patchgen_core.checks.result import clean

_CONTROL = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"} | {0x7F: "\u2421"}
_SPECIAL = re.compile("[&<>\"'\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_VOID = {"br", "input", "meta", "link"}


class Markup(str):
    """Text that is HTML already, and is not escaped again."""

    __slots__ = ()


Child: TypeAlias = "str | int | None"


def as_markup(text: str) -> Markup:
    """A text as HTML shows it; control characters as their pictures, what is not valid Unicode escaped."""
    if isinstance(text, Markup):
        return text
    if _SPECIAL.search(text) is None:
        return Markup(text)
    return Markup(html.escape(clean(text).translate(_CONTROL)))


def join_markup(parts: Iterable[Child], between: str = "") -> Markup:
    """Markup one after the other; text among it is escaped."""
    return Markup(between.join(as_markup(part if isinstance(part, str) else str(part)) for part in parts if part))


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """An element; content that is not :class:`Markup` is escaped, None and empty text left out.

    Attributes have ``_`` for ``-`` and may end in one: ``class_``, ``aria_label``. True is for one without a value;
    False and None leave it out.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{as_markup(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join_markup(children)}</{name}>")
