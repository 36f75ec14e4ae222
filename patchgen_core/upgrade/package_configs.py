"""The configs of a project that one package is upstream of."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgen_core.config.declarations import Patch
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.project.project import Project, no_configs
from patchgen_core.syntax.source import SourceCache

PACKAGE = "transformers"
ConfigKey = tuple[str, str]
"""A config's file, and the variable in it."""


@dataclass(frozen=True)
class PackageConfigs:
    """The configs of a project that one package is upstream of, unpinned; the rest is as in an upgrade's report."""

    project: Project
    package: str
    configs: tuple[LoadedConfig, ...]
    skipped: tuple[str, ...]
    failed: tuple[Problem, ...]
    sources: SourceCache = field(repr=False)

    @property
    def modules(self) -> tuple[str, ...]:
        """Upstream's modules that the configs are about, each once."""
        return tuple(dict.fromkeys(loaded.config.source_module for loaded in self.configs))


def select_configs(project: Project, paths: Sequence[Path] = (), package: str = PACKAGE) -> PackageConfigs:
    """Load the configs that a package is upstream of, from some files or from all of the project.

    Raises:
        PatchgenError: the project has no config, or none is about the package and every one could be loaded.
    """
    sources = SourceCache()
    loader = Loader(project, sources)
    results: list[LoadedConfig] = []
    skipped: list[str] = []
    failed: list[Problem] = []
    paths = list(paths) or project.find_configs()
    if not paths:
        raise no_configs(project)
    for path in paths:
        try:
            configs = loader.load(path)
        except PatchgenError as error:
            failed += error.problems
            continue
        for loaded in configs:
            top = str(loaded.config.source_module).partition(".")[0]
            if top == package:
                results.append(unpinned(loaded))
            else:
                skipped.append(f"{loaded.label}: its upstream is {top}, not {package}")
    if not results and not failed:
        raise PatchgenError(f"no config is about '{package}'", hint=f"{skipped[0]}." if skipped else "")
    return PackageConfigs(project, package, tuple(results), tuple(skipped), tuple(failed), sources)


def unpinned(loaded: LoadedConfig) -> LoadedConfig:
    """A config without the version that it is pinned to, which another release never is."""
    if loaded.config.transformers_version is None:
        return loaded
    config = copy.copy(loaded.config)
    config.transformers_version = None
    return replace(loaded, config=config)


def config_key(loaded: LoadedConfig) -> ConfigKey:
    """What a config goes by here."""
    return str(loaded.path), loaded.name


def patches_of(loaded: LoadedConfig) -> list[Patch]:
    """A config's patches, each with a line."""
    patches = [patch for patch in loaded.config.patches if isinstance(patch, Patch)]
    return [patch if patch.location else replace(patch, location=loaded.config.location) for patch in patches]
