"""Which module of which release a fork was copied from, by the lines that both have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchgen_core.authoring.fork.fork_file import Fork, code_lines, find_renames, rename
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.files import read_text
from patchgen_core.syntax.source import parse_source
from patchgen_core.upstream.module import find_upstream
from patchgen_core.upstream.releases import Release, Releases
from patchgen_core.upstream.versions import ascending, parse_version

LEAST = 0.3
"""A file that shares less of its lines with every module of upstream's is no fork."""
_SAME_NAMES = 0.4
"""Where a module has so many of the fork's classes by their names, these tell more than lines do."""
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
_NEAR = 5
"""How many modules that are much alike are compared with upstream's names in the fork."""
_STEPS = (8, 4, 2, 1)
"""How far apart the releases are that are looked at, ever closer around the best."""
_OLDEST = "4.30"


@dataclass(frozen=True)
class Origin:
    """Where a fork comes from.

    Attributes:
        share: how much of the fork's lines of code the module has, from 0 to 1.
        runner_up: the module or release that comes next, with its share; empty where nothing was compared.
        looked_at: the versions that were.
    """

    module: str
    release: Release
    share: float
    runner_up: str = ""
    looked_at: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Likeness:
    """How much a module of a release and a fork have in common."""

    share: float
    both: float
    """How much of the lines of both are common ones: tells releases apart that have all of the fork's."""
    module: str
    release: Release

    @property
    def rank(self) -> tuple[float, float]:
        return round(self.share, 4), round(self.both, 4)


@dataclass
class OriginFinder:
    """Looks for the origin of a fork among releases; ``progress`` is told of each release before it is read."""

    fork: Fork
    releases: Releases
    progress: Callable[[str], None] = lambda version: None
    _known: dict[tuple[str, str], _Likeness] = field(default_factory=dict)

    def find(self, module: str | None, version: str | None) -> Origin:
        """The origin, of which a module or a release may be known.

        Raises:
            PatchgenError: nothing is alike, there is no such module or release, or releases cannot be had.
        """
        if version is not None:
            self.progress(version)
            release = self.releases.find(version)
            return self._origin(self._modules(release, module)[:2])
        installed = self.releases.installed()
        start = [installed] if installed is not None else [self.releases.find("latest")]
        modules = self._modules(start[0], module, is_optional=True)
        if module is None and not self.fork.sources_of_imports and (not modules or modules[0].share < LEAST):
            modules = self._elsewhere() or modules
            if not modules or modules[0].share < LEAST:
                raise self._no_fork(modules)
        return self._origin([*self._best_releases(modules[0].module), *modules[1:2]])

    def _origin(self, found: Sequence[_Likeness]) -> Origin:
        if not found or found[0].share < LEAST:
            raise self._no_fork(found)
        best = found[0]
        others = [other for other in found[1:] if other.rank[0] < best.rank[0] or other.module != best.module]
        runner_up = ""
        if others:
            other = max(others, key=lambda likeness: likeness.rank)
            name = other.module if other.module != best.module else other.release.version
            runner_up = f"{name} has {percent(other.share)}"
        versions = ascending({likeness.release.version for likeness in self._known.values()})
        return Origin(best.module, best.release, best.share, runner_up, versions)

    def _no_fork(self, found: Sequence[_Likeness]) -> PatchgenError:
        message = "this is not a fork of a modeling file of transformers"
        if found:
            best = found[0]
            near = f"{best.module} of {best.release.version}"
            message += f": the nearest, {near}, has {percent(best.share)} of its lines"
        hint = "Name the module with --of and the release with --release, if it is one."
        return PatchgenError(message, Location(str(self.fork.source.path)), hint)

    # --- modules -------------------------------------------------------------------------------------

    def _modules(self, release: Release, module: str | None, *, is_optional: bool = False) -> list[_Likeness]:
        """The modules of a release that are most like the fork, the best first; or the one that is known."""
        if module is not None:
            try:
                upstream = find_upstream(module, (release.folder,))
            except PatchgenError:
                if is_optional:
                    return [_Likeness(LEAST, 0, module, release)]
                raise
            return [self._compare(upstream.path, module, release)]
        classes, shares = set(self.fork.source.index.classes), []
        for path in modeling_files(release.folder):
            text = read_text(path) or ""
            names = len(classes & set(_CLASS.findall(text))) / len(classes)
            shares.append((names if names >= _SAME_NAMES else 0, _share(self.fork.lines, code_lines(text)), path))
        near = sorted(shares, key=lambda entry: (-entry[0], -entry[1], entry[2]))[:_NEAR]
        likenesses = [self._compare(path, _module_name(release.folder, path), release) for _, _, path in near]
        if near and near[0][0]:
            return likenesses
        for name in self.fork.sources_of_imports:
            path = release.folder.joinpath(*name.split(".")).with_suffix(".py")
            if path.is_file():
                return [self._compare(path, name, release), *likenesses]
        return sorted(likenesses, key=lambda likeness: likeness.rank, reverse=True)

    def _elsewhere(self) -> list[_Likeness]:
        """The nearest modules of older releases, for those that newer ones have no longer."""
        versions = self._candidates()
        for version in versions[:: -_STEPS[0]]:
            self.progress(version)
            likenesses = self._modules(self.releases.find(version), None)
            if likenesses and likenesses[0].share >= LEAST:
                return likenesses
        return []

    def _compare(self, path: Path, module: str, release: Release) -> _Likeness:
        upstream = parse_source(path, read_text(path) or "")
        names = find_renames(self.fork.source, upstream)
        lines = code_lines(rename(self.fork.source, names)) if names else self.fork.lines
        theirs = code_lines(upstream.text)
        common = sum((lines & theirs).values())
        both = 2 * common / max(1, sum(lines.values()) + sum(theirs.values()))
        likeness = _Likeness(_share(lines, theirs), both, module, release)
        self._known[module, release.version] = likeness
        return likeness

    # --- releases ------------------------------------------------------------------------------------

    def _best_releases(self, module: str) -> list[_Likeness]:
        """The module in the releases that were looked at, the one that is most like the fork first."""
        versions = self._candidates()
        results: dict[int, _Likeness] = {}

        def look(number: int) -> None:
            if 0 <= number < len(versions) and number not in results:
                self.progress(versions[number])
                release = self.releases.find(versions[number])
                try:
                    upstream = find_upstream(module, (release.folder,))
                except PatchgenError:
                    return
                if upstream.path.is_relative_to(release.folder):
                    results[number] = self._compare(upstream.path, module, release)

        for number in range(len(versions) - 1, -1, -_STEPS[0]):
            look(number)
        for step in _STEPS[1:]:
            best = max(results, key=lambda n: results[n].rank, default=len(versions) - 1)
            look(best - step)
            look(best + step)
        return sorted(results.values(), key=lambda likeness: likeness.rank, reverse=True)

    def _candidates(self) -> list[str]:
        """The last release of each minor version, ascending; offline those that are at hand."""
        if self.releases.offline:
            installed = self.releases.installed()
            return list(ascending([*self.releases.kept(), *([installed.version] if installed is not None else [])]))
        newest = {}
        for version in self.releases.published():
            number = parse_version(version)
            if number >= parse_version(_OLDEST):
                newest[number.major, number.minor] = version
        return list(newest.values())


def modeling_files(folder: Path) -> Iterator[Path]:
    """The modeling files of a release."""
    return iter(sorted(folder.glob("transformers/models/*/modeling_*.py")))


def percent(share: float) -> str:
    """A share in words."""
    return f"{100 * share:.0f} %"


def _share(lines: Counter[str], theirs: Counter[str]) -> float:
    return sum((lines & theirs).values()) / max(1, sum(lines.values()))


def _module_name(folder: Path, path: Path) -> str:
    return ".".join(path.relative_to(folder).with_suffix("").parts)
