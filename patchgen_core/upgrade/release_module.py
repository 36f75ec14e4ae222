"""A config's upstream module as one release has it, and which release its generated file is based on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.checks.contract.library import Library
from patchgen_core.config.loading import LoadedConfig
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceFile, parse_source
from patchgen_core.upstream.module import UpstreamModule
from patchgen_core.upstream.recorded import recorded_upstream, recorded_version
from patchgen_core.upstream.releases import Release, Releases
from patchgen_core.upstream.versions import Origin, same_version


@dataclass(frozen=True)
class ReleaseModule:
    """A config's upstream module in one release.

    Attributes:
        source: its text and syntax tree. From checked-in files, its imports are absolute and ruff has formatted it:
            then only the syntax tree tells what upstream changed.
        library: finds the other modules of the release; None when only this one is known.
    """

    upstream: UpstreamModule
    source: SourceFile
    library: Library | None
    origin: Origin

    @property
    def version(self) -> str:
        """The release's version."""
        return self.upstream.version

    @property
    def is_recorded(self) -> bool:
        """Whether the text comes from the project's own checked-in files."""
        return self.origin == "checked-in files"


def generated_file(project: Project, loaded: LoadedConfig) -> Path:
    """Where a config's generated module belongs."""
    return project.output_folder(loaded.path) / loaded.config.target_file


def base_version(project: Project, loaded: LoadedConfig, releases: Releases) -> str:
    """The version that a config's generated file says it is based on, else the installed one; empty for neither."""
    installed = releases.installed()
    return recorded_version(generated_file(project, loaded)) or (installed.version if installed is not None else "")


def release_at_hand(releases: Releases, version: str, others: Iterable[Release] = ()) -> Release | None:
    """The release of a version without a download: the installed one, one of some others, or one of the cache."""
    installed = releases.installed()
    for release in (*([installed] if installed is not None else []), *others):
        if same_version(release.version, version):
            return release
    return releases.cached(version)


def recorded_module(project: Project, loaded: LoadedConfig, version: str) -> ReleaseModule | None:
    """A config's upstream module as its generated file and diff have it; None when they have no such version."""
    output, module = generated_file(project, loaded), loaded.config.source_module
    recorded = recorded_upstream(output)
    if recorded is None or not same_version(recorded.version, version):
        return None
    upstream = UpstreamModule(module, output, module.partition(".")[0], recorded.version)
    return ReleaseModule(upstream, parse_source(output, recorded.text), None, "checked-in files")
