"""A project, the release that it is upgraded to, and what becomes of it."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchgen_core.authoring.edits.needed_imports import missing_imports
from patchgen_core.build.results import DriftReport
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.config.declarations import Patch
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.config.replacement import read_replacement
from patchgen_core.syntax.diffs import unified_diff
from patchgen_core.syntax.source import SourceCache, read_source
from patchgen_core.upgrade.results import ConfigVerdict, Conflict, Kind, Merged, PatchVerdict, Rebase, UpgradeReport
from patchgen_core.upgrade.writing.applying import Applied, apply
from patchgen_core.upstream.module import find_upstream
from patchgen_core.upstream.releases import Release, Releases
from tests.conftest import UPSTREAM, Workspace

OLD_TEXT = """
import math
from .parts import cached, scale


class Norm:
    def __init__(self, eps=1e-6):
        self.eps = eps

    def forward(self, x):
        x = scale(x)
        return x + self.eps


def rotate(x, size):
    half = size // 2
    return -x[half:]
"""
NEW_TEXT = """
import math
from .parts import gain, scale, timed


def limit(x):
    return min(x, 1)


class Norm:
    def __init__(self, eps=1e-6):
        self.eps = eps

    def forward(self, x):
        x = limit(scale(x))
        x = gain(x)
        return x + self.eps


def rotate(x, size):
    half = math.floor(size / 2)
    return -x[half:]
"""


class Upgrading:
    """A workspace with ``OLD_TEXT`` installed as version 1.0, and a release 2.0 with ``NEW_TEXT`` beside it."""

    def __init__(self, work: Workspace, old: str = OLD_TEXT, new: str = NEW_TEXT) -> None:
        self.work = work
        work.upstream(old)
        self.folder = work.root.parent / "release"
        self.release_module(new)
        info = self.folder / "acme-2.0.dist-info" / "METADATA"
        info.parent.mkdir()
        info.write_text("Metadata-Version: 2.1\nName: acme\nVersion: 2.0\n", encoding="utf-8")
        self.releases = Releases(work.root.parent / "releases", "acme", offline=True)

    def release_module(self, text: str, module: str = UPSTREAM) -> None:
        """Write a module of the new release."""
        parts = module.split(".")
        for length in range(1, len(parts)):
            init = self.folder.joinpath(*parts[:length]) / "__init__.py"
            init.parent.mkdir(parents=True, exist_ok=True)
            init.write_text("", encoding="utf-8")
        self.folder.joinpath(*parts).with_suffix(".py").write_text(textwrap.dedent(text), encoding="utf-8")

    def generate(self) -> None:
        """Generate every config against the installed release."""
        report = fix(check(Selection(self.work.project)))
        problems = [str(problem) for result in report.results for problem in result.outcome.problems]
        assert not problems, problems

    @property
    def release(self) -> Release:
        """The new release."""
        return self.releases.source(self.folder)

    def report(self, texts: Mapping[str, str], *configs: str, names: Mapping[str, str] | None = None) -> UpgradeReport:
        """A report in which replacements become other texts.

        Args:
            texts: the new text of the replacement of each target, at column 0, or of each ``config:target``. A text
                with conflict markers has a conflict.
            configs: the configs that it is about; by default all.
            names: what targets are called now.
        """
        sources = SourceCache()
        loader = Loader(self.work.project, sources)
        paths = [self.work.models / config for config in configs] or self.work.project.find_configs()
        verdicts = [
            self._verdict(loaded, sources, texts, names or {}) for path in paths for loaded in loader.load(path)
        ]
        return UpgradeReport("acme", "2.0", tuple(verdicts))

    def _verdict(
        self, loaded: LoadedConfig, sources: SourceCache, texts: Mapping[str, str], names: Mapping[str, str]
    ) -> ConfigVerdict:
        patches = []
        for patch in loaded.config.patches:
            text = texts.get(f"{loaded.path.name}:{patch.target}", texts.get(patch.target))
            assert patch.location is not None
            rebase = self._rebase(loaded, sources, patch, text) if text is not None else None
            kind: Kind = "unchanged" if rebase is None else "changed"
            new = names.get(patch.target, "")
            patches.append(
                PatchVerdict(patch.kind, patch.target, "", patch.location, kind, "safe", (), new, rebase=rebase)
            )
        module, line = loaded.config.source_module, loaded.config.location.line
        path = str(loaded.path)
        return ConfigVerdict(loaded.label, path, line, module, "1.0", "2.0", "installed", "safe", tuple(patches))

    def _rebase(self, loaded: LoadedConfig, sources: SourceCache, patch: Patch, text: str) -> Rebase:
        assert patch.location is not None
        replacement = read_replacement(patch.replacement, sources, loaded.modules, patch.location)
        ours = "\n".join([*replacement.decorators, replacement.text])
        text = textwrap.dedent(text).strip("\n")
        is_marked = "<<<<<<<" in text
        merged = Merged(ours, "lines", (Conflict(1, "both sides changed it", "", "", ""),) * is_marked)
        if is_marked:
            return Rebase(replacement.location, ours, merged, "", text)
        upstream = find_upstream(loaded.config.source_module, [self.folder])
        file = sources.get(Path(replacement.location.file))
        needs = missing_imports(text, file, read_source(upstream.path), upstream)
        diff = unified_diff(ours, text, "", "")
        return Rebase(replacement.location, ours, Merged(text, "lines"), diff, needs=needs)

    def apply(self, texts: Mapping[str, str], *configs: str, **options: Any) -> Applied:
        """Apply such a report, whatever git says."""
        names = options.pop("names", None)
        report = self.report(texts, *configs, names=names)
        return apply(self.work.project, report, self.release, allow_dirty=True, **options)

    def drift(self) -> DriftReport:
        """The drift gate against the new release."""
        return check(Selection(replace(self.work.project, upstream=(self.folder,))))

    def git(self, *arguments: str) -> str:
        """Run git in the project."""
        author = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        env = {**os.environ, **author, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        command = ["git", "-C", str(self.work.root), *arguments]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout

    def commit(self) -> None:
        """Make the project a repository, and commit all of it."""
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "all")


def reasons(applied: Applied) -> list[str]:
    """Why replacements were left."""
    return [reason for _, reason in applied.left]
