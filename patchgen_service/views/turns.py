"""Since which release a config breaks, and which one to look at to know it more exactly."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from patchgen_core.checks.result import BAD
from patchgen_core.upgrade.matrix.bisecting import Gap, Turn, find_turns


@dataclass(frozen=True)
class Narrowing:
    """What is known of the release that breaks a config.

    Attributes:
        turn: the newest release that it goes with and the oldest after it that breaks it, with whether there is none
            between them; none where it goes with the newest, or with none. ``before`` is empty for the latter.
        untried: the release between them to look at next; empty where there is none.
    """

    turn: Turn | None = None
    untried: str = ""


class _Untried(Exception):
    """A release that nobody has looked at yet."""


def version_order(version: str) -> tuple[int, Version | str]:
    """A key that sorts versions by age; what is no version comes first."""
    try:
        return 1, Version(version)
    except InvalidVersion:
        return 0, version


def narrow(statuses: Mapping[str, str | None], releases: Collection[str]) -> Narrowing:
    """What is known of a config that breaks with the newest release that was tried.

    Args:
        statuses: its worst status with each release that was tried; None where a run came to no answer.
        releases: those that there are.
    """
    tried = sorted((version for version, status in statuses.items() if status is not None), key=version_order)
    broken: list[str] = []
    while tried and statuses[tried[-1]] in BAD:
        broken.append(tried.pop())
    if not broken:
        return Narrowing()
    if not tried:
        return Narrowing(Turn("", broken[-1], False))
    gap = Gap(tried[-1], broken[-1])
    versions: Sequence[str] = sorted({*releases, *statuses}, key=version_order)

    def ask(questions: Mapping[str, Collection[str]]) -> Mapping[str, Collection[str] | None]:
        for version in questions:
            if version not in statuses:
                raise _Untried(version)
        return dict.fromkeys(questions)  # those with an answer are not between the two

    try:
        return Narrowing(find_turns({"": gap}, versions, ask)[""])
    except _Untried as untried:
        return Narrowing(Turn(gap.before, gap.after, False), str(untried))
