"""Parsing a text of which an earlier version was parsed: statements whose text is the same are taken over."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from patchgen_core.syntax.source import SourceFile, parse_source


@dataclass(eq=False)
class _Part:
    """Some whole lines of a text with the statements of the top level that begin there, none of which ends elsewhere.

    The first part of a text begins with its first line, any other with a statement.
    """

    text: str
    first: int
    statements: list[ast.stmt]
    nodes: list[ast.AST] | None = field(default=None)

    def move(self, first: int) -> None:
        """Have it begin at another line, counted from 1."""
        distance = first - self.first
        if not distance:
            return
        if self.nodes is None:
            self.nodes = [n for s in self.statements for n in ast.walk(s) if isinstance(n, _PLACED)]
        for node in self.nodes:
            node.lineno += distance  # type: ignore[attr-defined]
            node.end_lineno += distance  # type: ignore[attr-defined]
        self.first = first


_PLACED = (ast.stmt, ast.expr, ast.arg, ast.keyword, ast.alias, ast.excepthandler, ast.pattern) + (
    (ast.type_param,) if hasattr(ast, "type_param") else ()
)
"""The nodes that know their lines."""


class ParsedText:
    """A text with its syntax tree, and what of it another version of the text can take over.

    That version changes lines of the tree, which is then no longer one of this text.
    """

    def __init__(self, source: SourceFile, parts: list[_Part] | None = None) -> None:
        self.source = source
        self._parts = parts if parts is not None else list(_split(source))

    def parse(self, path: Path, text: str) -> ParsedText:
        """The same for another version; a PatchgenError where that is not valid Python."""
        parts = None if "\r" in text or not text.endswith("\n") else self._align(text)
        if parts is None:
            return ParsedText(parse_source(path, text))
        line = 1
        for part in parts:
            part.move(line)
            line += part.text.count("\n")
        tree = ast.Module([statement for part in parts for statement in part.statements], [])
        return ParsedText(SourceFile(path, text, tree), parts)

    def _align(self, text: str) -> list[_Part] | None:
        """The parts of a text, as many as possible of them taken over; None where what is between them is nothing by
        itself, as the end of a string is."""
        parts: list[_Part] = []
        place, number = 0, 0
        while number < len(self._parts) or place < len(text):
            part = self._parts[number] if number < len(self._parts) else None
            if part is not None and part.statements and text.startswith(part.text, place):
                parts.append(part)
                place += len(part.text)
                number += 1
                continue
            number, end = self._find_next(text, place, number)
            if end > place:
                try:
                    parts += _split(SourceFile(Path(), text[place:end], ast.parse(text[place:end])))
                except (SyntaxError, ValueError, RecursionError):
                    return None
            place = end
        return parts

    def _find_next(self, text: str, place: int, number: int) -> tuple[int, int]:
        """The next part that stands in a text behind a place, and where; the end of both where there is none."""
        for later in range(number, len(self._parts)):
            part = self._parts[later]
            if not part.statements:
                continue
            if place == 0 and text.startswith(part.text):
                return later, 0
            at = text.find(f"\n{part.text}", max(place - 1, 0))
            if at >= 0:
                return later, at + 1
        return len(self._parts), len(text)


def _split(source: SourceFile) -> Iterator[_Part]:
    """The parts of a parsed text."""
    groups: list[tuple[int, list[ast.stmt]]] = []
    last = 0
    for statement in source.tree.body:
        first = source.first_line(statement)
        if groups and first <= last:  # several statements in a line
            groups[-1][1].append(statement)
        else:
            groups.append((first, [statement]))
        last = statement.end_lineno or first
    starts = [first for first, _ in groups]
    if not starts or starts[0] > 1:
        groups.insert(0, (1, []))
        starts.insert(0, 1)
    for (first, statements), end in zip(groups, [*starts[1:], len(source.lines) + 1]):
        text = source.text[source.line_starts[first - 1] : _start_of_line(source, end)]
        if text:
            yield _Part(text, first, statements)


def _start_of_line(source: SourceFile, line: int) -> int:
    return source.line_starts[line - 1] if line <= len(source.lines) else len(source.text)
