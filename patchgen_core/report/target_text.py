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


def compare_target(
    target: str, upstream: SourceFile, generated: SourceFile | None = None, base: SourceFile | None = None
) -> list[TargetLine]:
    """A class, method or function of upstream's beside what is generated; upstream's alone where nothing is.

    Args:
        base: upstream's module in the layout of the generated one. Lines that only their layout tells from upstream's
            are upstream's.
    """
    first, ours = _lines_of(target, upstream)
    theirs = _lines_of(target, generated)[1] if generated is not None else ours
    if base is not None:
        theirs = _in_own_layout(ours, _lines_of(target, base)[1], theirs)
    return list(_compare(first, ours, theirs))


def _lines_of(target: str, source: SourceFile) -> tuple[int, list[str]]:
    node = dict(source.definitions).get(target)
    if node is None:
        return 1, []
    first = source.comment_line(node)
    return first, source.lines[first - 1 : source.last_line(node)]


def _in_own_layout(ours: list[str], base: list[str], theirs: list[str]) -> list[str]:
    """Generated lines, with upstream's own ones in the place of those that it has in another layout."""
    places: dict[int, int] = {}  # of lines of the base among the generated ones
    for kind, start, end, new_start, _ in difflib.SequenceMatcher(None, base, theirs, autojunk=False).get_opcodes():
        if kind == "equal":
            places |= {number: new_start + number - start for number in range(start, end)}
    lines = list(theirs)
    changes = difflib.SequenceMatcher(None, ours, base, autojunk=False).get_opcodes()
    for kind, start, end, base_start, base_end in reversed(changes):
        around = range(max(base_start - 1, 0), base_end) if base_start == base_end else range(base_start, base_end)
        taken = [places[number] for number in around if number in places]
        is_kept = bool(taken) and len(taken) == len(around) == taken[-1] - taken[0] + 1
        if kind != "equal" and is_kept:
            past = taken[-1] + 1
            lines[past - (base_end - base_start) : past] = ours[start:end]
    return lines


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
