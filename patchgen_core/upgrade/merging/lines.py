"""Three-way merge of lines, as ``diff3`` does it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from patchgen_core.upgrade.results import Conflict


@dataclass(frozen=True)
class Region:
    """A part of three texts, as half-open ranges of lines from 0, that all three share or that lies between such."""

    base: tuple[int, int]
    ours: tuple[int, int]
    theirs: tuple[int, int]
    is_common: bool


def find_regions(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> Iterator[Region]:
    """Split three texts at the lines that all of them share, in order."""
    at_base = at_ours = at_theirs = 0
    for start, end, our_start, their_start in _shared(base, ours, theirs):
        if (at_base, at_ours, at_theirs) != (start, our_start, their_start):
            yield Region((at_base, start), (at_ours, our_start), (at_theirs, their_start), False)
        size = end - start
        if size:
            yield Region((start, end), (our_start, our_start + size), (their_start, their_start + size), True)
        at_base, at_ours, at_theirs = end, our_start + size, their_start + size


def _shared(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of the base that both others match: start and end there, start in ours and in theirs; the last empty."""
    mine = SequenceMatcher(None, base, ours, autojunk=False).get_matching_blocks()
    others = SequenceMatcher(None, base, theirs, autojunk=False).get_matching_blocks()
    i = j = 0
    while i < len(mine) and j < len(others):
        start = max(mine[i].a, others[j].a)
        end = min(mine[i].a + mine[i].size, others[j].a + others[j].size)
        if start < end:
            yield start, end, start - mine[i].a + mine[i].b, start - others[j].a + others[j].b
        if mine[i].a + mine[i].size < others[j].a + others[j].size:
            i += 1
        else:
            j += 1
    yield len(base), len(base), len(ours), len(theirs)


def merge_lines(base: str, ours: str, theirs: str) -> tuple[str, tuple[Conflict, ...]]:
    """Merge two changes of a text by lines; where both changed the same, ours stays and a conflict says so."""
    lines = base.split("\n"), ours.split("\n"), theirs.split("\n")
    merged: list[str] = []
    conflicts = []
    for region in find_regions(*lines):
        old, mine, new = (part[slice(*at)] for part, at in zip(lines, (region.base, region.ours, region.theirs)))
        if old == mine:
            merged += new
            continue
        if new not in (old, mine):
            reason = "both sides changed these lines"
            shown = ["\n".join(part) for part in (old, mine, new)]
            conflicts.append(Conflict(region.ours[0] + 1, reason, shown[0], shown[1], shown[2]))
        merged += mine
    return "\n".join(merged), tuple(conflicts)
