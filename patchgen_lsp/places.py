"""Files as an editor names them, and places in a text as it counts them."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lsprotocol import types

from patchgen_core.syntax.source import SourceFile

_BYTES = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


def path_of(uri: str) -> Path | None:
    """The path of a ``file:`` URI; None for what is no file, such as a document that was never saved."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return None
    text = unquote(parts.path)
    if os.name == "nt":  # /c:/folder
        text = text.lstrip("/")
    return Path(os.path.abspath(text))


def uri_of(path: Path | str) -> str:
    """The URI of an absolute path."""
    return Path(path).as_uri()


def width(text: str, units: str) -> int:
    """The length of a text in an editor's units."""
    encoding, size = _BYTES[units]
    return len(text) if text.isascii() else len(text.encode(encoding, "surrogatepass")) // size


def column_of(line: str, character: int, units: str) -> int:
    """The column, as Python counts, of a place in a line that an editor counts in its units."""
    if line.isascii():
        return min(character, len(line))
    encoding, size = _BYTES[units]
    return len(line.encode(encoding, "surrogatepass")[: character * size].decode(encoding, "ignore"))


def make_range(lines: Sequence[str], start: tuple[int, int], end: tuple[int, int], units: str) -> types.Range:
    """The range between two places, each a line from 0 and a column as Python counts."""
    return types.Range(_position(lines, *start, units), _position(lines, *end, units))


def place_of(source: SourceFile, offset: int) -> tuple[int, int]:
    """The place of a character of a parsed text: its line from 0, and its column as Python counts."""
    line = bisect_right(source.line_starts, offset) - 1
    return line, offset - source.line_starts[line]


def line_range(lines: Sequence[str], line: int, units: str) -> types.Range:
    """What is written on a line, counted from 1, without its indentation; the first line for 0."""
    number = min(max(line - 1, 0), max(len(lines) - 1, 0))
    text = lines[number] if lines else ""
    indent = len(text) - len(text.lstrip())
    return make_range(lines, (number, indent), (number, len(text.rstrip())), units)


def _position(lines: Sequence[str], line: int, column: int, units: str) -> types.Position:
    text = lines[line] if line < len(lines) else ""
    return types.Position(line, width(text[:column], units))
