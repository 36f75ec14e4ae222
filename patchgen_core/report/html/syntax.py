"""Lines of Python as spans with classes, which the style sheet gives colours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from patchgen_core.report.html.markup import Markup, as_markup

if TYPE_CHECKING:
    from pygments.lexer import Lexer

Span = tuple[int, int]
Token = tuple[str, str]
"""A class, empty for none, and a text."""

_CLASSES = (
    ("Comment", "c"),
    ("Literal.String", "s"),
    ("Literal.Number", "n"),
    ("Keyword", "k"),
    ("Operator.Word", "k"),
    ("Name.Decorator", "d"),
    ("Name.Function", "f"),
    ("Name.Class", "f"),
    ("Name.Builtin", "b"),
    ("Name.Exception", "b"),
)
_QUOTES = re.compile(r'"""|\'\'\'')


def code_lines(lines: Sequence[str]) -> list[tuple[Token, ...]]:
    """The tokens of each line of a piece of Python, which may begin or end within a string."""
    tokens = []
    quotes = _open_before(lines)
    for line in lines:
        tokens.append(_tokens(line, quotes))
        quotes = _open_after(line, quotes)
    return tokens


def mark_up(tokens: Iterable[Token], changed: Sequence[Span] = ()) -> Markup:
    """Tokens as HTML, with ``<mark>`` around the spans of characters that changed."""
    parts: list[str] = []
    if not changed:
        return Markup("".join(_span(name, piece) for name, piece in tokens))
    for inside, pieces in _cut_tokens(tokens, _unite(changed)):
        text = "".join(_span(name, piece) for name, piece in pieces)
        parts.append(f"<mark>{text}</mark>" if inside else text)
    return Markup("".join(parts))


@lru_cache(maxsize=65536)
def _span(name: str, text: str) -> str:
    return f"<i class={name}>{as_markup(text)}</i>" if name else as_markup(text)


def _unite(spans: Sequence[Span]) -> list[Span]:
    """Spans in their order, those that touch as one."""
    united: list[Span] = []
    for start, end in sorted(spans):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return united


def _cut_tokens(tokens: Iterable[Token], spans: Sequence[Span]) -> Iterator[tuple[bool, list[Token]]]:
    """Tokens by whether they lie in a span, cut at its borders."""
    borders = [border for span in spans for border in span]
    column, passed = 0, 0
    group: list[Token] = []
    for name, text in tokens:
        while passed < len(borders) and column + len(text) > borders[passed]:
            at = borders[passed] - column
            if at:
                group.append((name, text[:at]))
            if group:
                yield passed % 2 == 1, group
            name, text, column, group = name, text[at:], borders[passed], []
            passed += 1
        group.append((name, text))
        column += len(text)
    if group:
        yield passed % 2 == 1, group


@lru_cache(maxsize=1)
def _lexer() -> Lexer:
    from pygments.lexers.python import PythonLexer

    return PythonLexer(ensurenl=False, stripnl=False)


@lru_cache(maxsize=65536)
def _tokens(line: str, quotes: str) -> tuple[Token, ...]:
    """The tokens of a line that begins within a string of these quotes, or in none."""
    if not quotes:
        return tuple((_class(str(kind)), text) for kind, text in _lexer().get_tokens(line) if text)
    inside, end, rest = line.partition(quotes)
    string = (("s", inside + end),) if inside + end else ()
    return (*string, *_tokens(rest, "")) if rest else string


@lru_cache(maxsize=256)
def _class(kind: str) -> str:
    bare = kind.removeprefix("Token.")
    return next((name for start, name in _CLASSES if bare.startswith(start)), "")


def _open_after(line: str, quotes: str) -> str:
    """The quotes of the string that is open after a line; empty for none."""
    for match in _QUOTES.finditer(line):
        if not quotes:
            quotes = match[0]
        elif match[0] == quotes:
            quotes = ""
    return quotes


def _open_before(lines: Sequence[str]) -> str:
    """The quotes of the string in which the first line begins, as its first quotes show: they close it when no
    statement ends before them, and text does."""
    for number, line in enumerate(lines):
        match = _QUOTES.search(line)
        if match is None:
            continue
        if line.count(match[0]) > 1:
            return ""
        before, after = line[: match.start()].strip(), line[match.end() :].strip()
        is_begun = before in ("", "r", "f", "rf") and (after or lines[number - 1].rstrip().endswith((":", "=", "(")))
        is_begun = is_begun or before.endswith(("=", "(", ",", "[", "return"))
        return "" if is_begun or (not before and number == 0 and len(lines) == 1) else match[0]
    return ""
