"""Python in pages: unified diffs as two columns, what was left and what is right, with syntax colours."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from patchgen_core.report.diff import changed_words, visible
from patchgen_core.report.html.markup import Markup, as_markup, join_markup, tag
from patchgen_core.syntax.diffs import FileDiff, Line, parse_diff

if TYPE_CHECKING:
    from pygments.lexer import Lexer

_MOST_LINES = 400
"""Lines of one file's diff that a page has; the rest is only counted."""
_LONG_CONTEXT = 10
"""So many unchanged lines in a row are folded, but for those next to a change."""
_BESIDE = 3
_ALIKE = 0.6
"""From which ratio on lines that changed are alike."""
_MOST_PAIRS = 150
"""So many pairs of lines are compared at most."""
_Scored = tuple[float, tuple[tuple[int, int], ...]]


def diff_view(diff: str, label: str, is_open: bool = False) -> Markup:
    """A unified diff of Python, folded away under its label and counts; empty for no diff."""
    files = parse_diff(diff)
    lines = [line for file in files for hunk in file.hunks for line in hunk.lines]
    if not lines:
        return Markup()
    added, removed = (sum(line.kind == kind for line in lines) for kind in "+-")
    summary = tag("summary", tag("span", label, class_="label"), " ", _counts(added, removed))
    return tag("details", summary, *map(_file, files), class_="diff", open=is_open)


def text_view(text: str) -> Markup:
    """A piece of Python as it stands."""
    lines = [visible(line) for line in text.split("\n")]
    rows = (Markup(f"<span>{mark_up(tokens)}\n</span>") for tokens in code_lines(lines))
    return tag("pre", tag("code", *rows), class_="code", tabindex=0)


def _counts(added: int, removed: int) -> Markup:
    def part(count: int, sign: str, name: str) -> Markup:
        return tag("span", f"{sign}{count}", tag("span", f" {name}", class_="unseen"), class_=f"count {name}")

    return join_markup([part(added, "+", "added"), part(removed, "\u2212", "removed")], " ")


def _file(file: FileDiff) -> Markup:
    parts, left = [tag("div", *(tag("span", name) for name in _side_names(file)), class_="names")], _MOST_LINES
    missing = 0
    for number, hunk in enumerate(file.hunks):
        lines, missing = hunk.lines[:left], missing + len(hunk.lines[left:])
        left -= len(lines)
        if lines:
            if number or hunk.owner:
                parts.append(tag("div", hunk.owner or "\u22ef", class_="owner"))
            parts += _hunk(lines)
    if missing:
        parts.append(tag("p", f"{missing} more lines are left out here.", class_="rest"))
    return tag("div", *parts, class_="file")


def _side_names(file: FileDiff) -> tuple[str, str]:
    """What both sides are; without the file where only what stands after it in brackets differs."""
    path, _, old = file.old.partition(" (")
    same, _, new = file.new.partition(" (")
    return (old.removesuffix(")"), new.removesuffix(")")) if old and new and path == same else (file.old, file.new)


def _hunk(lines: Sequence[Line]) -> Iterator[Markup]:
    tokens = _tokens(lines)
    for first, last, is_changed in _runs(lines):
        own, code = lines[first:last], tokens[first:last]
        if is_changed:
            marked = _changed(own, code)
            yield from (_block(marked[number] for number in part) for part in _pair_blocks(own))
            continue
        before, after = _BESIDE if first else 0, len(own) - (_BESIDE if last < len(lines) else 0)
        if after - before <= _LONG_CONTEXT:
            yield _unchanged(own, code)
            continue
        yield _unchanged(own[:before], code[:before])
        summary = tag("summary", f"{after - before} unchanged lines")
        yield tag("details", summary, _unchanged(own[before:after], code[before:after]), class_="fold")
        yield _unchanged(own[after:], code[after:])


def _tokens(lines: Sequence[Line]) -> list[tuple[Token, ...]]:
    """The code of each line, read as a line of the side that it belongs to."""
    tokens: list[tuple[Token, ...]] = [()] * len(lines)
    for left_out in "+-":
        own = [number for number, line in enumerate(lines) if line.kind not in (left_out, "\\")]
        for number, code in zip(own, code_lines([visible(lines[number].text) for number in own])):
            tokens[number] = code
    return tokens


def _runs(lines: Sequence[Line]) -> Iterator[tuple[int, int, bool]]:
    """First and last place of lines that are changed, or are not, one after the other."""
    start = 0
    for end in range(1, len(lines) + 1):
        is_changed = lines[start].kind != " "
        if end == len(lines) or (lines[end].kind != " ") is not is_changed:
            yield start, end, is_changed
            start = end


def _block(lines: Iterable[Markup]) -> Markup:
    return Markup(f"<div class=g>{''.join(lines)}</div>")


def _pair_blocks(lines: Sequence[Line]) -> list[list[int]]:
    """Changed lines in blocks in which the first removed and the first added line stand side by side, and so on:
    where more are removed than added, or fewer, cut so that lines that are alike do."""
    old, new = ([number for number, line in enumerate(lines) if line.kind == kind] for kind in "-+")
    is_plain = len(old) + len(new) == len(lines) and 0 < len(old) * len(new) <= _MOST_PAIRS
    if not is_plain or len(old) == len(new):
        return [list(range(len(lines)))]
    parts: list[list[int]] = [[]]
    last = (-1, -1)
    for one, two in [*_pairs([lines[n].text for n in old], [lines[n].text for n in new]), (len(old), len(new))]:
        if (one, two) != (last[0] + 1, last[1] + 1):
            parts += [[*old[last[0] + 1 : one], *new[last[1] + 1 : two]], []]
        if one < len(old):
            parts[-1] += [old[one], new[two]]
        last = (one, two)
    return [sorted(part) for part in parts if part]


def _pairs(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The places of lines that are alike, both ascending: those pairs that have most in common in all."""
    best: list[list[_Scored]] = [[(0.0, ())] * (len(new) + 1) for _ in range(len(old) + 1)]
    for two, text in enumerate(new):
        matcher = difflib.SequenceMatcher(None, "", text.strip(), autojunk=False)
        for one, other in enumerate(old):
            matcher.set_seq1(other.strip())
            ratio = matcher.ratio()
            score, pairs = best[one][two]
            taken: _Scored = (score + ratio, (*pairs, (one, two))) if ratio >= _ALIKE else (0.0, ())
            best[one + 1][two + 1] = max(taken, best[one][two + 1], best[one + 1][two], key=lambda entry: entry[0])
    return list(best[-1][-1][1])


def _changed(lines: Sequence[Line], tokens: Sequence[tuple[Token, ...]]) -> list[Markup]:
    words = changed_words(lines)
    markup = []
    for number, (line, code) in enumerate(zip(lines, tokens)):
        if line.kind == "\\":
            markup.append(Markup(f"<span class=x>{as_markup(line.text.strip())}</span>"))
            continue
        name = "del" if line.kind == "-" else "ins"
        text = mark_up(code, words.get(number, ()))
        markup.append(Markup(f"<{name} data-n={line.old or line.new}>{text}\n</{name}>"))
    return markup


def _unchanged(lines: Sequence[Line], tokens: Sequence[tuple[Token, ...]]) -> Markup:
    """Lines that both columns have; a screen reader, and a narrow screen, has them once."""
    if not lines:
        return Markup()
    texts = [mark_up(code) for code in tokens]
    left = "".join(f"<span data-n={line.old}>{text}\n</span>" for line, text in zip(lines, texts))
    right = "".join(f"<span data-n={line.new}>{text}\n</span>" for line, text in zip(lines, texts))
    return Markup(f"<div class=g><div>{left}</div><div class=r aria-hidden=true>{right}</div></div>")


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
        tokens.append(_line_tokens(line, quotes))
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
def _line_tokens(line: str, quotes: str) -> tuple[Token, ...]:
    if not quotes:
        return tuple((_class(str(kind)), text) for kind, text in _lexer().get_tokens(line) if text)
    inside, end, rest = line.partition(quotes)
    string = (("s", inside + end),) if inside + end else ()
    return (*string, *_line_tokens(rest, "")) if rest else string


@lru_cache(maxsize=256)
def _class(kind: str) -> str:
    bare = kind.removeprefix("Token.")
    return next((name for start, name in _CLASSES if bare.startswith(start)), "")


def _open_after(line: str, quotes: str) -> str:
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
