"""Edits of whole lines of a file, which leave every other byte as it is."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.errors import Location, PatchgenError

_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")


@dataclass(frozen=True)
class LineEdit:
    """Replace the lines ``start`` to ``stop - 1`` (1-based); with ``start == stop``, insert above ``start``."""

    start: int
    stop: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Lines:
    """A Python file as its bytes are: lines with their newlines, and the encoding.

    Attributes:
        path: the file.
        encoding: as its cookie or byte order mark says.
        lines: pairs of a line and its newline; the last one has none where the file ends without.
    """

    path: Path
    encoding: str
    lines: tuple[tuple[str, str], ...]

    @property
    def newline(self) -> str:
        """The newline that most lines have."""
        counts = Counter(newline for _, newline in self.lines if newline)
        return counts.most_common(1)[0][0] if counts else "\n"

    @property
    def text(self) -> str:
        """The file with ``\\n`` newlines, as it is parsed."""
        text = "".join(line + ("\n" if newline else "") for line, newline in self.lines)
        return text if text.endswith("\n") or not text else f"{text}\n"

    @property
    def encoded(self) -> str:
        """The file as :func:`patchgen_core.files.write_files` takes it.

        Raises:
            PatchgenError: the file's encoding lacks a character.
        """
        text = "".join(line + newline for line, newline in self.lines)
        try:
            return text.encode(self.encoding).decode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            lacking = text[error.start : error.end]
            raise PatchgenError(
                f"its encoding, {self.encoding}, lacks {lacking!r}", Location(str(self.path))
            ) from None

    def edited(self, edits: Iterable[LineEdit]) -> Lines:
        """The file after some edits that do not overlap; of two at one place, the first one listed comes first."""
        result: list[tuple[str, str]] = []
        at = 1
        for edit in sorted(edits, key=lambda e: (e.start, e.stop)):
            assert edit.start >= at, f"overlapping edits at line {edit.start}"
            result += self.lines[at - 1 : edit.start - 1]
            replaced = self.lines[edit.start - 1 : edit.stop - 1]
            if result and not result[-1][1] and edit.lines:
                result[-1] = (result[-1][0], self.newline)
            result += [(line, self.newline) for line in edit.lines]
            if edit.lines and replaced and edit.stop > len(self.lines):
                result[-1] = (edit.lines[-1], replaced[-1][1])
            at = edit.stop
        return replace(self, lines=(*result, *self.lines[at - 1 :]))


def read_lines(path: Path) -> Lines:
    """Read a Python file, keeping what its bytes are.

    Raises:
        PatchgenError: it cannot be read or decoded.
    """
    try:
        data = path.read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (OSError, UnicodeDecodeError, SyntaxError, LookupError) as error:
        raise PatchgenError(f"cannot be read: {error}", Location(str(path))) from None
    found = [(match[1], match[2]) for match in _LINE.finditer(text) if match[0]]
    return Lines(path, encoding, tuple(found))
