"""Finding the release between two at which something turns, looking at as few of them as possible."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
G = TypeVar("G", bound=Hashable)
Span = tuple[int, int]


@dataclass(frozen=True)
class Gap:
    """Two versions between which something turns: one in which it is as it was, and a later one in which it is not."""

    before: str
    after: str


@dataclass(frozen=True)
class Turn:
    """The nearest versions between which something turns; it `is_exact` if there is none between them."""

    before: str
    after: str
    is_exact: bool = True


Ask = Callable[[Mapping[str, Collection[K]]], Mapping[str, Collection[K] | None]]
"""Given versions, each with the things to look at there: for each version those of them that are as in their gap's
``before``; None for a version that cannot be had."""


def find_turns(gaps: Mapping[K, Gap], versions: Sequence[str], ask: Ask[K]) -> dict[K, Turn]:
    """Narrow gaps by bisection.

    Each thing is taken to turn once in its gap. When it turns more often, one of its turns is found, which need not
    be the first. Things with the same gap are looked at together for as long as they turn together, so that one
    version answers for all of them.

    Args:
        versions: the versions that there are, in ascending order; those of the gaps among them.
        ask: looks at versions. Called about log2 of a gap's versions times, each time with those of all gaps.
    """
    places = {version: number for number, version in enumerate(versions)}
    missing: set[int] = set()
    turns: dict[K, Turn] = {}
    spans = _grouped(((places[gap.before], places[gap.after]), key) for key, gap in gaps.items())
    while spans:
        halves: list[tuple[int, Span, list[K]]] = []
        for span, keys in spans.items():
            middle = _middle(span, missing)
            if middle is None:
                before, after = span
                turns |= {key: Turn(versions[before], versions[after], after - before == 1) for key in keys}
            else:
                halves.append((middle, span, keys))
        questions = _grouped((versions[middle], key) for middle, _, keys in halves for key in keys)
        answers = ask(questions) if questions else {}
        missing |= {places[version] for version, answer in answers.items() if answer is None}
        spans = _grouped(
            (_half(span, middle, answers[versions[middle]], key), key) for middle, span, keys in halves for key in keys
        )
    return turns


def _grouped(pairs: Iterable[tuple[G, K]]) -> dict[G, list[K]]:
    groups: dict[G, list[K]] = {}
    for group, key in pairs:
        groups.setdefault(group, []).append(key)
    return groups


def _middle(span: Span, missing: Collection[int]) -> int | None:
    """The version in the middle of those between two; None when there is none that can be had."""
    between = [number for number in range(span[0] + 1, span[1]) if number not in missing]
    return between[len(between) // 2] if between else None


def _half(span: Span, middle: int, unturned: Collection[K] | None, key: K) -> Span:
    """The half of a gap in which something turns; the whole when its middle cannot be had."""
    if unturned is None:
        return span
    return (middle, span[1]) if key in unturned else (span[0], middle)
