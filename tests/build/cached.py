"""Checks with the cache, and a project to run them on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from patchgen_core.build.cache import Cache
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.project.project import Project
from patchgen_core.report.drift.json import drift_data
from patchgen_core.syntax.source import SourceCache
from tests.conftest import PREAMBLE, Workspace

BASE, HEIR, OTHER = (f"toy/{name}_gpu_patch_gen_config.py" for name in ("toy", "heir", "other"))
FAMILY = ["heir", "other", "toy"]
"""The configs of :func:`make_family` by the first words of their files' names."""

WITHOUT_LOADING = """
import sys
from patchgen_core.cli.main import main

code = main({arguments})
print("generator" if "patchgen_core.config.loading" in sys.modules else "cache", file=sys.stderr)
sys.exit(code)
"""


def preamble(target: str) -> str:
    return PREAMBLE.replace("patched_modeling_toy_gpu.py", target)


class Checked:
    """A check with the cache.

    Attributes:
        report: what it tells.
        reused: the configs that it did not load, each by the first word of its file's name.
    """

    def __init__(
        self,
        project: Project,
        paths: Sequence[Path] | None = None,
        name: str | None = None,
        output: Path | None = None,
    ) -> None:
        loader = Recorder(project, SourceCache())
        self.report = check(Selection(project, paths, name, output), loader=loader, cache=Cache(project))
        found = {result.outcome.path for result in self.report.results}
        self.reused = sorted(path.name.partition("_")[0] for path in found - loader.loaded)


class Recorder(Loader):
    """A loader that knows what it was asked for."""

    def __init__(self, project: Project, sources: SourceCache) -> None:
        super().__init__(project, sources)
        self.loaded: set[Path] = set()

    def load(self, path: Path, name: str | None = None) -> list[LoadedConfig]:
        self.loaded.add(path)
        return super().load(path, name)


def checked(work: Workspace) -> Checked:
    return Checked(work.project)


def entries(work: Workspace) -> list[Path]:
    return sorted(Cache(work.project).folder.glob("results/*"))


def same(work: Workspace) -> Checked:
    """A check with the cache, which tells what one without it does."""
    found = checked(work)
    assert drift_data(found.report) == drift_data(work.check())
    return found


def rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
