"""Version numbers of releases, in their order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from patchgen_core.errors import PatchgenError

if TYPE_CHECKING:
    from packaging.version import Version

Origin = Literal["installed", "cache", "download", "wheel", "folder", "checked-in files"]
"""Where a release was read from."""


def parse_version(text: str) -> Version:
    """A version number; a text that is none is a :class:`~patchgen_core.errors.PatchgenError`."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(text)
    except InvalidVersion:
        hint = "Write a version number, such as 5.9.0, or 'latest'."
        raise PatchgenError(f"'{text}' is not a version", hint=hint) from None


def same_version(one: str, other: str) -> bool:
    """Whether two texts name the same version, as 5.9 and 5.9.0 do; what is no version is only like itself."""
    try:
        return parse_version(one) == parse_version(other)
    except PatchgenError:
        return one == other


def ascending(versions: Iterable[str], *, prereleases: bool = True) -> tuple[str, ...]:
    """Versions from the oldest to the newest, each once; what is no version is left out."""
    from packaging.version import InvalidVersion, Version

    results: dict[Version, str] = {}
    for text in versions:
        try:
            version = Version(text)
        except InvalidVersion:
            continue
        if prereleases or not version.is_prerelease:
            results.setdefault(version, text)
    return tuple(results[version] for version in sorted(results))


def newest(versions: Iterable[str], *, prereleases: bool = False) -> str | None:
    """The newest of some versions; None when there is none."""
    ordered = ascending(versions, prereleases=prereleases)
    return ordered[-1] if ordered else None


def nearest(version: str, versions: Iterable[str]) -> tuple[str, ...]:
    """The known versions just before and just after one that is not known; raises as :func:`parse_version` does."""
    target = parse_version(version)
    ordered = ascending(versions)
    before = [text for text in ordered if parse_version(text) < target]
    after = [text for text in ordered if parse_version(text) > target]
    return (*before[-1:], *after[:1])
