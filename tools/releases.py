"""Releases that the tests need, of transformers and of a real project, each downloaded once. `make releases` does so
beforehand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from patchgen_core.checks.contract.library import Library
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.release_module import ReleaseModule
from patchgen_core.upstream.module import find_upstream
from patchgen_core.upstream.releases import Release, Releases
from tests.upgrade.upgrade_history import RELEASES

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".venv" / "releases"
"""Where they are kept: as long as the environment."""


REAL = {"0.1.11": "5.2.0", "0.1.12": "5.9.0"}
"""The releases of the real project, VeOmni, each with the release of transformers that its files were made from."""
NEEDED = {
    "anyio": "4.16.0",
    "h11": "0.16.0",
    "httpcore": "1.0.9",
    "httpx": "0.28.1",
    "huggingface-hub": "1.23.0",
    "psutil": "7.2.2",
    "sniffio": "1.3.1",
    "tokenizers": "0.22.2",
}
"""What these import that this environment has not, or has in a release that they refuse."""


def find_releases(distribution: str = "transformers") -> Releases:
    """Finds releases; what is missing is downloaded."""
    return Releases(FOLDER, distribution)


def find_release(version: str, distribution: str = "transformers") -> Release:
    """A release."""
    return find_releases(distribution).find(version)


def sides(project: Project, release: Release, modules: tuple[str, ...]) -> dict[str, ReleaseModule]:
    """Upstream's modules as a release has them; those that it lacks are left out."""
    sources = SourceCache()
    library = Library(replace(project, upstream=(release.folder,)), sources)
    modules_by_name = {}
    for module in modules:
        try:
            upstream = find_upstream(module, (release.folder,))
        except PatchgenError:
            continue
        modules_by_name[module] = ReleaseModule(upstream, sources.get(upstream.path), library, release.origin)
    return modules_by_name


if __name__ == "__main__":
    wanted = [(version, "transformers") for version in dict.fromkeys((*REAL.values(), *RELEASES))]
    wanted += [(version, "veomni") for version in REAL]
    wanted += [(version, distribution) for distribution, version in NEEDED.items()]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda release: find_release(*release), wanted))
