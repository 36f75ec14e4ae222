"""Unified diffs for people: words that changed, syntax colours on a terminal, long hunks folded."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pygments.lexers.python import PythonLexer
from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from patchgen_core.syntax.diffs import FileDiff, Hunk, Line, parse_diff

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_LINE_STYLE = {"+": "green", "-": "red"}
_CHANGED = {"+": "black on green", "-": "white on red"}
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}
_MOST_LINES = 48
_MOST_HUNKS = 12
_LONGEST = 500
_TAIL = 8
_MOST_WORDS = 1200


@dataclass(frozen=True)
class Fold:
    """Lines left out of what is shown."""

    lines: tuple[Line, ...]
    hunks: int = 0

    def __str__(self) -> str:
        kinds = [line.kind for line in self.lines]
        hunks = f" in {self.hunks} hunks" if self.hunks else ""
        counts = f"{kinds.count('-')} removed, {kinds.count('+')} added"
        return f"[{len(kinds)} more lines{hunks}: {counts}]"


@dataclass(frozen=True)
class FoldedHunk:
    """What is shown of a hunk."""

    header: str
    owner: str
    lines: tuple[Line | Fold, ...]


@dataclass(frozen=True)
class FoldedDiff:
    """What is shown of a file's hunks, and the names it has before and after."""

    old: str
    new: str
    hunks: tuple[FoldedHunk | Fold, ...]


def fold(file: FileDiff) -> FoldedDiff:
    """The file with the middle of its long hunks, and its last hunks if there are many, folded."""
    hunks: list[FoldedHunk | Fold] = [_fold_hunk(hunk) for hunk in file.hunks[:_MOST_HUNKS]]
    rest = file.hunks[_MOST_HUNKS:]
    if rest:
        hunks.append(Fold(tuple(line for hunk in rest for line in hunk.lines), len(rest)))
    return FoldedDiff(file.old, file.new, tuple(hunks))


def _fold_hunk(hunk: Hunk) -> FoldedHunk:
    lines: tuple[Line | Fold, ...] = hunk.lines
    if len(lines) > _MOST_LINES + _TAIL:
        first, last = _MOST_LINES - _TAIL, len(lines) - _TAIL
        lines = (*lines[:first], Fold(hunk.lines[first:last]), *lines[last:])
    return FoldedHunk(hunk.header, hunk.owner, lines)


# --- plain -----------------------------------------------------------------------------------------


def plain_diff(diff: str, folded: bool = False) -> Text:
    """A unified diff, coloured by line; ``folded`` leaves out the middle of long hunks."""
    text = Text()
    for file in parse_diff(diff):
        for row, style in _plain_rows(fold(file) if folded else file):
            text.append(f"{row}\n", style)
    return text


def _plain_rows(file: FileDiff | FoldedDiff) -> Iterator[tuple[str, str]]:
    yield f"--- {file.old}", "bold"
    yield f"+++ {file.new}", "bold"
    for hunk in file.hunks:
        if isinstance(hunk, Fold):
            yield str(hunk), "cyan"
            continue
        yield hunk.header, "cyan"
        for line in hunk.lines:
            if isinstance(line, Fold):
                yield str(line), "cyan"
            else:
                yield f"{line.kind}{line.text}", _LINE_STYLE.get(line.kind, "")


# --- for a terminal --------------------------------------------------------------------------------


def rich_diff(diff: str, folded: bool = True) -> RenderableType:
    """A unified diff of Python as a terminal shows it best: line numbers, syntax, the words that changed."""
    files = [fold(file) if folded else file for file in parse_diff(diff)]
    return Group(*(part for file in files for part in (_file_names(file), _table(file))))


def _file_names(file: FileDiff | FoldedDiff) -> Text:
    return Text.assemble(("- ", "red"), (file.old, "bold"), "\n", ("+ ", "green"), (file.new, "bold"))


def _table(file: FileDiff | FoldedDiff) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    hunks = [hunk for hunk in file.hunks if not isinstance(hunk, Fold)]
    lines = [line for hunk in hunks for line in hunk.lines if isinstance(line, Line)]
    for numbers in ([line.old for line in lines], [line.new for line in lines]):
        width = max((len(str(number or "")) for number in numbers), default=0)
        table.add_column(justify="right", no_wrap=True, style="dim", width=width)  # rich need not measure each cell
    table.add_column(no_wrap=True, style="dim", width=min(1, len(lines)))
    table.add_column(overflow="fold")
    for number, hunk in enumerate(file.hunks):
        owner = "" if isinstance(hunk, Fold) else hunk.owner
        if number or owner:
            table.add_row("", "", "", Text(f"in {owner}" if owner else "...", "cyan"))
        for line, text in [(hunk, None)] if isinstance(hunk, Fold) else _highlighted(hunk):
            if isinstance(line, Fold) or text is None:
                table.add_row("", "", "", Text(str(line), "cyan italic"))
            else:
                sign = Text(line.kind, _LINE_STYLE.get(line.kind, ""))
                table.add_row(str(line.old or ""), str(line.new or ""), sign, text)
    return table


def _highlighted(hunk: Hunk | FoldedHunk) -> Iterator[tuple[Line | Fold, Text | None]]:
    lexer = PythonLexer(stripnl=False, ensurenl=True)  # rich would look its name up for every line
    syntax = Syntax("", lexer, theme="ansi_dark", background_color="default")
    block: list[Line] = []
    for line in (*hunk.lines, None):
        if isinstance(line, Line) and line.kind != " ":
            block.append(line)
            continue
        changed = changed_words(block)
        for number, entry in enumerate(block):
            text = _highlight(syntax, entry)
            for start, end in changed.get(number, ()):
                text.stylize(_CHANGED[entry.kind], start, end)
            yield entry, text
        block = []
        if isinstance(line, Line):
            text = _highlight(syntax, line)
            text.stylize("dim")
            yield line, text
        elif line is not None:
            yield line, None


def _highlight(syntax: Syntax, line: Line) -> Text:
    text = syntax.highlight(visible(line.text))
    text.right_crop(1)  # the newline
    text.no_wrap = False
    if line.kind != " ":
        text.style = _LINE_STYLE.get(line.kind, "dim")
    return text


def visible(code: str) -> str:
    """A line of code without tabs, with pictures of its control characters, and no longer than can be read."""
    text = code.expandtabs(4).translate(_PICTURES)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} [{len(text) - _LONGEST} more characters]"


def changed_words(block: Sequence[Line]) -> dict[int, list[tuple[int, int]]]:
    """Spans of changed words by the line's place in a block of removed and added lines.

    Nothing for lines that only come or only go, or that have little in common.
    """
    words = {kind: _words(block, kind) for kind in "-+"}
    if not all(words.values()) or sum(map(len, words.values())) > _MOST_WORDS:
        return {}
    old, new = ([word for word, _, _ in words[kind]] for kind in "-+")
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < 0.4:
        return {}
    spans: dict[int, list[tuple[int, int]]] = {}
    for tag, *bounds in matcher.get_opcodes():
        if tag == "equal":
            continue
        for kind, (first, last) in zip("-+", (bounds[:2], bounds[2:])):
            for word, number, start in words[kind][first:last]:
                if not word.isspace() or tag != "replace":
                    spans.setdefault(number, []).append((start, start + len(word)))
    return spans


def _words(block: Sequence[Line], kind: str) -> list[tuple[str, int, int]]:
    """Each word of a kind's lines, with its line's place and its column."""
    return [
        (match[0], number, match.start())
        for number, line in enumerate(block)
        if line.kind == kind
        for match in _WORD.finditer(visible(line.text))
    ]
