"""Where the files of a release come from: what is installed, the cache, pip, a wheel or a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from patchgen_core.errors import Location, PatchgenError, display_path
from patchgen_core.files import digest
from patchgen_core.project.cache_folder import RELEASES, cache_folder, prepare_folder
from patchgen_core.project.project import Project
from patchgen_core.upstream.downloading import WITHOUT_NETWORK, download_wheel, published_versions
from patchgen_core.upstream.module import find_upstream
from patchgen_core.upstream.release_cache import FILES, downloading, find_wheels, remove_stale
from patchgen_core.upstream.versions import Origin, ascending, newest, parse_version, same_version
from patchgen_core.upstream.wheels import DamagedWheel, Wheel, package_name, read_wheel

LATEST = "latest"
CANDIDATE = "candidate"
"""Stands for the newest pre-release, if it is newer than every release."""
"""The word for the newest release."""


@dataclass(frozen=True)
class Release:
    """A release of upstream; `folder` holds the package, for ``Project.upstream``."""

    distribution: str
    version: str
    folder: Path
    origin: Origin

    @property
    def package(self) -> str:
        """The name of its package."""
        return package_name(self.distribution)

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """The dotted names of all its modules, sorted."""
        results = []
        for folder, folders, files in os.walk(self.folder / self.package):
            folders[:] = [name for name in folders if name.isidentifier() and name != "__pycache__"]
            below = Path(folder).relative_to(self.folder).as_posix()
            results += [_dotted_name(f"{below}/{name}") for name in files if name.endswith(".py")]
        return tuple(sorted(results))


def _dotted_name(file: str) -> str:
    """The module that a file of a package is, given with forward slashes from the package's parent."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class NoCandidate(PatchgenError):
    """There is no release candidate to look at."""


class Releases:
    """Finds releases of one distribution, downloading nothing when `offline`. Wheels and what is unpacked of them are
    kept in a folder; see :func:`release_folder`."""

    def __init__(self, folder: Path, distribution: str = "transformers", *, offline: bool = False) -> None:
        self.folder, self.distribution, self.offline = folder, distribution, offline
        self._releases: dict[str, Release] = {}
        self._published: tuple[str, ...] = ()

    def installed(self) -> Release | None:
        """The release that is installed, in whole; None when none is."""
        return self._installed

    @cached_property
    def _installed(self) -> Release | None:
        try:
            package = find_upstream(package_name(self.distribution))
        except PatchgenError:
            return None
        return Release(self.distribution, package.version, package.path.parents[1], "installed")

    def find(self, version: str) -> Release:
        """A release by version, ``latest`` or ``candidate``: the installed one, else one of the cache, else from pip.

        Raises:
            PatchgenError: there is no such release, or it cannot be had.
        """
        version = self.latest() if version == LATEST else self.candidate() if version == CANDIDATE else version
        parse_version(version)
        installed = self.installed()
        if installed is not None and same_version(installed.version, version):
            return installed
        return self.cached(version) or self._releases.setdefault(version, self._download(version))

    def cached(self, version: str) -> Release | None:
        """A release of the cache; None when it is not there. Nothing is downloaded.

        Raises:
            PatchgenError: its wheel cannot be read, or the folder not written to.
        """
        if version in self._releases:
            return self._releases[version]
        for path in find_wheels(self._home):
            if same_version(path.parent.name, version):
                try:
                    release = self._unpacked(read_wheel(path, self.distribution), path.parent, "cache")
                except DamagedWheel:
                    path.unlink(missing_ok=True)
                    continue
                return self._releases.setdefault(version, release)
        return None

    def wheel(self, path: Path) -> Release:
        """The release of a wheel that is at hand, unpacked into the cache.

        Raises:
            PatchgenError: it is no wheel, is damaged, or is one of another distribution.
        """
        wheel = read_wheel(path, self.distribution)
        try:
            mark = digest(path.read_bytes())[:12]
        except OSError as error:
            raise PatchgenError(f"cannot be read: {error.strerror}", Location(str(path))) from None
        folder = self._home / f"{wheel.version}-{mark}"
        return self._unpacked(wheel, folder, "wheel")

    def source(self, path: Path) -> Release:
        """The release in a checkout, a folder such as ``site-packages``, or the package's own folder, read there.

        Raises:
            PatchgenError: the package is not there.
        """
        path, package = Path(os.path.abspath(path)), package_name(self.distribution)
        place = display_path(path)
        if path.is_file():
            hint = "A wheel is given with --wheel." if path.suffix == ".whl" else ""
            raise PatchgenError(f"'{place}' is a file, not a folder", hint=hint)
        if not path.is_dir():
            raise PatchgenError(f"there is no folder '{place}'")
        own = [path.parent] if path.name == package else []
        for folder in (path / "src", path, *own):
            if (folder / package / "__init__.py").is_file():
                upstream = find_upstream(package, (folder,))
                return Release(self.distribution, upstream.version, folder, "folder")
        raise PatchgenError(
            f"'{place}' holds no package '{package}'",
            hint=f"Give a checkout with 'src/{package}' or '{package}' in it, or the folder '{package}' itself.",
        )

    def published(self, *, prereleases: bool = False) -> tuple[str, ...]:
        """All versions that pip finds wheels of, ascending.

        Raises:
            PatchgenError: pip cannot tell, or nothing may be downloaded.
        """
        if self.offline:
            raise PatchgenError(
                f"the releases of {self.distribution} cannot be listed offline",
                hint=f"Name a version that is available ({self._at_hand()}), or {WITHOUT_NETWORK}.",
            )
        self._published = self._published or published_versions(self.distribution)
        return ascending(self._published, prereleases=prereleases)

    def latest(self) -> str:
        """The newest version that is no pre-release; raises as :meth:`published` does."""
        return newest(self.published()) or self.published(prereleases=True)[-1]

    def candidate(self) -> str:
        """The newest pre-release, if nothing that is none is newer.

        Raises:
            PatchgenError: there is no such one (:class:`NoCandidate`), or as :meth:`published` does.
        """
        version = newest(self.published(prereleases=True), prereleases=True)
        if version is None or not parse_version(version).is_prerelease:
            latest = f" newer than {version}" if version is not None else ""
            raise NoCandidate(f"{self.distribution} has no release candidate{latest}")
        return version

    @property
    def _home(self) -> Path:
        return self.folder / self.distribution

    def _prepare(self) -> None:
        prepare_folder(self.folder.parent)
        prepare_folder(self._home)

    def _unpacked(self, wheel: Wheel, folder: Path, origin: Origin) -> Release:
        self._prepare()
        wheel.unpack(folder / FILES)
        return Release(self.distribution, wheel.version, folder / FILES, origin)

    def _download(self, version: str) -> Release:
        if self.offline:
            raise PatchgenError(
                f"{self.distribution} {version} is neither installed nor in the cache, and nothing may be downloaded",
                hint=f"Name one that is available ({self._at_hand()}), or {WITHOUT_NETWORK}.",
            )
        self._prepare()
        remove_stale(self._home)
        with downloading(self._home) as temporary:
            wheel = read_wheel(download_wheel(self.distribution, version, temporary), self.distribution)
            place = self._home / wheel.version / wheel.path.name
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                os.replace(wheel.path, place)
            except OSError as error:
                if not place.is_file():  # on Windows, one that another process reads cannot be replaced
                    raise PatchgenError(f"cannot be written: {error.strerror}", Location(str(place))) from None
        return self._unpacked(read_wheel(place, self.distribution), place.parent, "download")

    def kept(self) -> tuple[str, ...]:
        """The versions that the cache has, ascending."""
        return ascending(path.parent.name for path in find_wheels(self._home))

    def _at_hand(self) -> str:
        """The versions that need no network, in words."""
        installed = self.installed()
        cached = self.kept()
        parts = [f"{installed.version} installed"] if installed else []
        parts += [f"{', '.join(cached)} in the cache"] if cached else []
        return "; ".join(parts) or "none"


def release_folder(project: Project) -> Path:
    """Where a project's releases are kept: beside the results of its checks."""
    return cache_folder(project) / RELEASES
