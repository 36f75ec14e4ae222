"""The releases that a matrix has columns for, from the words that a user writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.upstream.release_cache import kept_releases
from patchgen_core.upstream.releases import LATEST, Release, Releases
from patchgen_core.upstream.versions import ascending, newest, parse_version, same_version

if TYPE_CHECKING:
    from packaging.version import Version

_RANGE = ".."
_AT_ONCE = 4

Fetching = Callable[[str], None]
"""Told the version of each release that is about to be looked for."""


@dataclass(frozen=True)
class ReleaseColumn:
    """A release and what reports call it: its version, and where it is from when another has the same one."""

    label: str
    release: Release


@dataclass(frozen=True)
class WantedReleases:
    """What a matrix should have columns for; the words are versions, ``latest``, and ranges such as ``5.9..5.23``."""

    words: tuple[str, ...] = ()
    wheels: tuple[Path, ...] = ()
    sources: tuple[Path, ...] = ()


def find_columns(releases: Releases, request: WantedReleases, fetching: Fetching) -> tuple[ReleaseColumn, ...]:
    """The columns, from the oldest release to the newest, each once.

    Raises:
        PatchgenError: with all that cannot be had.
    """
    problems: list[Problem] = []
    versions: list[str] = []
    for word in request.words:
        try:
            versions += expand(releases, word)
        except PatchgenError as error:
            problems += error.problems
    at_hand_releases, failed = fetch(releases, ascending(versions), fetching)
    problems += failed
    for read, paths in ((releases.wheel, request.wheels), (releases.source, request.sources)):
        for path in paths:
            try:
                at_hand_releases.append(read(path))
            except PatchgenError as error:
                problems += error.problems
    if problems:
        raise PatchgenError.from_problems(problems)
    return _labelled(at_hand_releases)


def expand(releases: Releases, word: str) -> tuple[str, ...]:
    """The versions that a word stands for; of a range, the newest one of each minor release.

    Raises:
        PatchgenError: it is no version, or a range in which there is none.
    """
    first, dots, last = word.partition(_RANGE)
    if word == LATEST:
        return (releases.latest(),)
    if not dots:
        return (str(parse_version(word)),)
    low = parse_version(first) if first else None
    high = parse_version(last) if last not in ("", LATEST) else None
    minors: dict[tuple[int, ...], list[str]] = {}
    for version in known_versions(releases):
        parsed = parse_version(version)
        if (low is None or parsed >= low) and (high is None or _is_up_to(parsed, high)):
            minors.setdefault(parsed.release[:2], []).append(version)
    if not minors:
        hint = "Write the older one first." if low and high and low > high else ""
        raise PatchgenError(f"there is no release of {releases.distribution} in '{word}'", hint=hint)
    return tuple(newest(group) or group[-1] for group in minors.values())


def _is_up_to(version: Version, last: Version) -> bool:
    """Whether a version is not newer than one, of which as much counts as is written: 5.23.1 is up to 5.23."""
    return version.release[: len(last.release)] <= last.release


def known_versions(releases: Releases) -> tuple[str, ...]:
    """All versions that are published, or, offline, at hand; no pre-releases."""
    if not releases.offline:
        return releases.published()
    return ascending(at_hand(releases), prereleases=False)


def at_hand(releases: Releases) -> tuple[str, ...]:
    """The versions that are installed or in the cache, ascending."""
    installed = releases.installed()
    entries = [entry for entry in kept_releases(releases.folder) if entry.distribution == releases.distribution]
    cached = [entry.version for entry in entries if "-" not in entry.version]
    return ascending([*cached, *([installed.version] if installed is not None else [])])


def fetch(releases: Releases, versions: Iterable[str], fetching: Fetching) -> tuple[list[Release], list[Problem]]:
    """Releases, several of them downloaded at once, and what is wrong with those that cannot be had."""

    def find(version: str) -> Release | PatchgenError:
        fetching(version)
        try:
            return releases.find(version)
        except PatchgenError as error:
            return error

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        results = list(pool.map(find, versions))
    problems = [problem for error in results if isinstance(error, PatchgenError) for problem in error.problems]
    return [release for release in results if isinstance(release, Release)], problems


def _labelled(releases: Iterable[Release]) -> tuple[ReleaseColumn, ...]:
    """Releases in ascending order, each folder once, with names that tell them apart."""
    by_folder: dict[Path, Release] = {}
    for release in releases:
        by_folder.setdefault(release.folder, release)
    ordered = sorted(by_folder.values(), key=lambda release: parse_version(release.version))
    columns: list[ReleaseColumn] = []
    for release in ordered:
        label, number = release.version, 1
        while any(same_version(label, column.label) or label == column.label for column in columns):
            number += 1
            label = f"{release.version} ({release.origin}{f' {number - 1}' if number > 2 else ''})"
        columns.append(ReleaseColumn(label, release))
    return tuple(columns)
