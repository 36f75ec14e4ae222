"""The text of a definition with its tokens, and where in it each part of its syntax tree stands."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from patchgen_core.syntax.nodes import DEFINITIONS, Definition
from patchgen_core.syntax.source import SourceFile, parse_source, shift

_LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
_WORD = re.compile(r"\w+")
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True)
class Token:
    """A token that is no layout: its text, and its offsets."""

    string: str
    start: int
    end: int


@dataclass(frozen=True)
class TokenRange:
    """One of several things that commas separate.

    Attributes:
        lead: offset where it starts: behind the comma before it, or the opening bracket.
        start, end: offsets of its tokens; equal for what follows a last comma.
        comma: offset of the comma behind it; None for the last.
    """

    lead: int
    start: int
    end: int
    comma: int | None


@dataclass(frozen=True, eq=False)
class DefinitionText:
    """The source of one definition: its text and syntax tree."""

    source: SourceFile
    _dumps: dict[ast.AST, str] = field(default_factory=dict, repr=False)

    @property
    def definition(self) -> Definition:
        """The definition."""
        node = self.source.tree.body[0]
        assert isinstance(node, DEFINITIONS)
        return node

    def dump(self, node: ast.AST | None) -> str:
        """A node's syntax, however it is laid out."""
        if node is None:
            return ""
        if node not in self._dumps:
            self._dumps[node] = ast.dump(node)
        return self._dumps[node]

    @cached_property
    def _read(self) -> tuple[list[Token], list[Token]]:
        """The tokens that are no layout, and the comments."""
        starts = self.source.line_starts
        tokens, comments = list[Token](), list[Token]()
        for info in tokenize.generate_tokens(io.StringIO(self.source.text).readline):
            if info.type not in _LAYOUT:
                start, end = (starts[line - 1] + column for line, column in (info.start, info.end))
                (comments if info.type == tokenize.COMMENT else tokens).append(Token(info.string, start, end))
        return tokens, comments

    @property
    def tokens(self) -> list[Token]:
        """The tokens, without comments and white space."""
        return self._read[0]

    @cached_property
    def names(self) -> frozenset[str]:
        """Every word of the code, those in strings included."""
        return frozenset(word for token in self.tokens for word in _WORD.findall(token.string))

    @cached_property
    def _starts(self) -> list[int]:
        return [token.start for token in self.tokens]

    @cached_property
    def _ends(self) -> list[int]:
        return [token.end for token in self.tokens]

    def tokens_in(self, start: int, end: int) -> list[Token]:
        """The tokens between two offsets."""
        return self.tokens[bisect_left(self._starts, start) : bisect_left(self._starts, end)]

    def comments_in(self, start: int, end: int) -> list[str]:
        """The comments between two offsets."""
        return [comment.string for comment in self._read[1] if start <= comment.start < end]

    def outer(self, node: ast.expr, low: int, high: int) -> tuple[int, int]:
        """Offsets of an expression with the brackets that are around nothing else, between two offsets."""
        start, end = self.source.start(node), self.source.end(node)
        first, last = bisect_left(self._starts, start) - 1, bisect_left(self._ends, end) + 1
        while first >= 0 and last < len(self.tokens):
            left, right = self.tokens[first], self.tokens[last]
            if left.string != "(" or right.string != ")" or left.start < low or right.end > high:
                break
            start, end, first, last = left.start, right.end, first - 1, last + 1
        return start, end

    def brackets(self, end: int) -> tuple[int, int]:
        """What is between the bracket that closes at an offset and the one that opens it."""
        number, depth = bisect_left(self._ends, end), 0
        while True:
            string = self.tokens[number].string
            depth += (string in _CLOSING) - (string in _OPENING)
            if depth == 0:
                return self.tokens[number].end, end - 1
            number -= 1

    def chunks(self, start: int, end: int) -> list[TokenRange]:
        """What the commas between two offsets separate; what follows a last comma is no chunk."""
        ranges, depth, lead = [], 0, start
        inside: list[Token] = []
        for token in self.tokens_in(start, end):
            depth += (token.string in _OPENING) - (token.string in _CLOSING)
            if depth == 0 and token.string == ",":
                ranges.append(TokenRange(lead, inside[0].start, inside[-1].end, token.start))
                lead, inside = token.end, []
            else:
                inside.append(token)
        if inside:
            ranges.append(TokenRange(lead, inside[0].start, inside[-1].end, None))
        return ranges

    def line_of(self, offset: int) -> int:
        """The line that an offset stands on."""
        starts = self.source.line_starts
        at = bisect_left(starts, offset)
        return at + 1 if starts[at] == offset else at

    def moved_lines(self, first: int, last: int, indent: str = "") -> str:
        """The text of some lines, moved from the first one's indentation to another; by default to column 0."""
        keep = {line - first for line in range(first, last + 1) if line in self.source.string_lines}
        return "\n".join(shift(self.source.lines[first - 1 : last], self.source.indent(first), indent, keep))

    def moved(self, start: int, end: int, indent: str) -> str:
        """The text between two offsets, its further lines moved along with the line that it starts on."""
        first, last = self.line_of(start), self.line_of(end)
        lines = self.source.text[start:end].split("\n")
        keep = {line - first for line in range(first, last + 1) if line in self.source.string_lines} | {0}
        return "\n".join(shift(lines, self.source.indent(first), indent, keep))


@dataclass(frozen=True)
class Unit:
    """A statement with the lines that belong to it.

    Attributes:
        first: the first line, with the comments directly above it and its decorators.
        start: the first line of the statement itself.
        is_apart: whether no other statement shares these lines.
    """

    node: ast.stmt
    text: DefinitionText
    first: int
    start: int
    last: int
    is_apart: bool

    @property
    def dump(self) -> str:
        """Its syntax."""
        return self.text.dump(self.node)

    @cached_property
    def words(self) -> Counter[str]:
        """The names, values and kinds of syntax in it."""
        return Counter(_WORD.findall(self.dump))

    @property
    def source_text(self) -> str:
        """Its text at column 0, with its comments."""
        return self.text.moved_lines(self.first, self.last)

    @property
    def bounds(self) -> tuple[int, int]:
        """Offsets of its lines, the last newline included."""
        starts = self.text.source.line_starts
        return starts[self.first - 1], starts[self.last]

    @property
    def comments(self) -> list[str]:
        """The comment lines above it."""
        return [line.strip() for line in self.text.source.lines[self.first - 1 : self.start - 1]]

    @property
    def is_spaced(self) -> bool:
        """Whether an empty line is above it."""
        return self.first > 1 and not self.text.source.lines[self.first - 2].strip()


def read_text(text: str, name: str = "definition") -> DefinitionText:
    """Parse a definition; what is not valid Python is a :class:`~patchgen_core.errors.PatchgenError`."""
    return DefinitionText(parse_source(Path(name), text if text.endswith("\n") else f"{text}\n"))


def units(text: DefinitionText, body: list[ast.stmt]) -> list[Unit]:
    """The statements of a block with their lines."""
    source, results = text.source, []
    for number, node in enumerate(body):
        first, last = source.comment_line(node), source.last_line(node)
        before = source.lines[node.lineno - 1][: source.start(node) - source.line_starts[node.lineno - 1]].strip()
        shared = number + 1 < len(body) and body[number + 1].lineno == node.end_lineno
        apart = not before and not shared and not source.text.startswith("elif", source.start(node))
        results.append(Unit(node, text, first, source.first_line(node), last, apart))
    return results
