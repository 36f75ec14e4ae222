"""Configs with a release of upstream: what generates, what breaks a rule, what changed below each patch."""

from __future__ import annotations

import contextlib
import gc
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.package_configs import ConfigKey, config_key, patches_of, unpinned
from patchgen_core.upgrade.release_module import ReleaseModule, recorded_module
from patchgen_core.upgrade.release_project import Generation, ReleaseProject
from patchgen_core.upgrade.results import Finding
from patchgen_core.upgrade.verdicts.comparing import compare_target
from patchgen_core.upgrade.verdicts.module_view import view_of
from patchgen_core.upstream.releases import Release
from patchgen_core.workers.collector import without_collector

_MANY = 1_500_000
"""How many objects may be left over before cycles among them are looked for; some 200 MiB of them."""


@dataclass(frozen=True)
class ConfigBase:
    """The version that a config's generated file is based on, empty if unknown, and its release, if it can be had."""

    version: str = ""
    release: Release | None = None


@dataclass(frozen=True)
class Compatibility:
    """What a config is with one release.

    Attributes:
        generation: None when the release lacks upstream's module.
        targets: what upstream changed in each patch's target, from the config's base; None where that is not known.
    """

    generation: Generation | None
    targets: tuple[Finding | None, ...] = ()


@dataclass(frozen=True)
class CompatibilityChecker:
    """Checks configs, none pinned to a version, with releases. What a release was read into is dropped afterwards."""

    project: Project
    configs: Mapping[ConfigKey, LoadedConfig]
    bases: Mapping[ConfigKey, ConfigBase]
    sources: SourceCache = field(repr=False)

    @without_collector()
    def prepare(self) -> None:
        """Read what the configs are based on, which otherwise happens when it is needed first."""
        assert len(self._base_modules) == len(self.configs)

    @without_collector()
    def check(self, release: Release, keys: Iterable[ConfigKey]) -> dict[ConfigKey, Compatibility]:
        """What some configs become with a release.

        Raises:
            PatchgenError: ruff cannot run, or the project's settings name a rule or module that is not there.
        """
        project = ReleaseProject(self.project, release, self.sources.fork(), self.sources)
        wanted = list(keys)
        present = {key: self.configs[key] for key in wanted if project.module(self.configs[key]) is not None}
        generations = project.generate(present)
        results = dict.fromkeys(wanted, Compatibility(None))
        for key, generation in generations.items():
            results[key] = Compatibility(generation, self._targets(key, project))
        project.sources.clear()
        view_of.cache_clear()
        if gc.get_count()[0] > _MANY:
            gc.collect()
        return results

    def _targets(self, key: ConfigKey, project: ReleaseProject) -> tuple[Finding | None, ...]:
        patches = patches_of(self.configs[key])
        old, new = self._base_modules[key], project.release_module(self.configs[key])
        if old is None or new is None:
            return (None,) * len(patches)
        return tuple(compare_target(old, new, patch).finding for patch in patches)

    @cached_property
    def _base_modules(self) -> dict[ConfigKey, ReleaseModule | None]:
        """Upstream's modules as the configs are based on them."""
        projects: dict[Path, ReleaseProject] = {}
        return {key: self._base_module(loaded, self.bases[key], projects) for key, loaded in self.configs.items()}

    def _base_module(
        self, loaded: LoadedConfig, base: ConfigBase, projects: dict[Path, ReleaseProject]
    ) -> ReleaseModule | None:
        release = base.release
        if release is None:
            return recorded_module(self.project, loaded, base.version)
        if release.folder not in projects:
            projects[release.folder] = ReleaseProject(self.project, release, SourceCache(), self.sources)
        return projects[release.folder].release_module(loaded)


# --- in a worker -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckerRequest:
    """A checker that is wanted."""

    project: Project
    bases: Mapping[ConfigKey, ConfigBase]


@dataclass(frozen=True)
class CheckRequest:
    """Configs of a checker that are to be checked with a release."""

    checker: CheckerRequest
    release: Release
    keys: tuple[ConfigKey, ...]


_checkers: list[tuple[CheckerRequest, CompatibilityChecker]] = []  # that of the last request


def check_configs(request: CheckRequest) -> dict[ConfigKey, Compatibility]:
    """What configs become with a release; raises as :meth:`CompatibilityChecker.check` does, or where none loads."""
    gc.disable()
    with contextlib.redirect_stderr(io.StringIO()):  # the process that asks has loaded the configs, too
        return _find_checker(request.checker).check(request.release, request.keys)


def _find_checker(request: CheckerRequest) -> CompatibilityChecker:
    """The checker of the last request, if it is the same."""
    if not _checkers or _checkers[0][0] != request:
        _checkers.clear()
        gc.unfreeze()
        gc.collect()
        checker = _make_checker(request)
        checker.prepare()
        _checkers.append((request, checker))
        gc.freeze()  # it stays: nothing of it is looked at when cycles are
    return _checkers[0][1]


def _make_checker(request: CheckerRequest) -> CompatibilityChecker:
    """A checker whose configs are loaded here."""
    project, bases = request.project, request.bases
    sources = SourceCache()
    loader = Loader(project, sources)
    configs: dict[ConfigKey, LoadedConfig] = {}
    for path in dict.fromkeys(path for path, _ in bases):
        loaded = {config_key(config): unpinned(config) for config in loader.load(Path(path))}
        configs |= {key: config for key, config in loaded.items() if key in bases}
    return CompatibilityChecker(project, configs, bases, sources)
