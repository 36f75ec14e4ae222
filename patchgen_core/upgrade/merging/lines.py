"""Three-way merge of lines, as ``diff3`` does it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from patchgen_core.upgrade.results import Conflict


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
    at = (0, 0, 0)
    for start, end, our_start, their_start in _shared(*lines):
        spans = zip(at, (start, our_start, their_start))
        old, mine, new = (part[slice(*span)] for part, span in zip(lines, spans))
        if new not in (old, mine) and old != mine:
            texts = ["\n".join(part) for part in (old, mine, new)]
            conflicts.append(Conflict(at[1] + 1, "both sides changed these lines", texts[0], texts[1], texts[2]))
        merged += new if old == mine else mine
        merged += lines[0][start:end]
        at = end, our_start + end - start, their_start + end - start
    return "\n".join(merged), tuple(conflicts)
