"""Upstream's text of a target with what a config makes of it, line by line, with upstream's numbers."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from rich.text import Text

from patchgen_core.syntax.source import SourceFile

_STYLES = {"-": "red", "+": "green"}


@dataclass(frozen=True)
class TargetLine:
    """A line: ``number`` is upstream's, 0 for one that upstream lacks; ``mark`` says what became of it."""

    number: int
    mark: str
    text: str


def compare_target(target: str, upstream: SourceFile, generated: SourceFile | None) -> list[TargetLine]:
    """A class, method or function of upstream's beside what is generated; upstream's alone where nothing is."""
    first, ours = _lines_of(target, upstream)
    theirs = _lines_of(target, generated)[1] if generated is not None else ours
    return list(_compare(first, ours, theirs))


def _lines_of(target: str, source: SourceFile) -> tuple[int, list[str]]:
    node = dict(source.definitions).get(target)
    if node is None:
        return 1, []
    first = source.comment_line(node)
    return first, source.lines[first - 1 : source.last_line(node)]


def _compare(first: int, ours: list[str], theirs: list[str]) -> Iterator[TargetLine]:
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        mark = " " if kind == "equal" else "-"
        yield from (TargetLine(first + number, mark, ours[number]) for number in range(start, end))
        if kind != "equal":
            yield from (TargetLine(0, "+", line) for line in theirs[new_start:new_end])


def target_text(lines: list[TargetLine]) -> Text:
    """The lines for a console."""
    text = Text()
    width = max((len(str(line.number)) for line in lines), default=1)
    for line in lines:
        number = str(line.number) if line.number else ""
        text.append(f"{number:>{width}} ", "dim")
        text.append(f"{line.mark} {line.text}".rstrip() + "\n", _STYLES.get(line.mark, ""))
    return text
