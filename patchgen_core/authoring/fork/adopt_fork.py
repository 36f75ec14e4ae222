"""From a forked modeling file to a config: where it comes from, the patches, and carrying them to a newer release."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.authoring.fork.fork_config import ForkConfig, ForkWriter
from patchgen_core.authoring.fork.fork_file import read_fork
from patchgen_core.authoring.fork.origins import Origin, OriginFinder, percent
from patchgen_core.authoring.new_file import check_free
from patchgen_core.authoring.type_imports.complete import complete_new_config
from patchgen_core.errors import Problem
from patchgen_core.files import write_files
from patchgen_core.project.project import CONFIG_SUFFIX, Project
from patchgen_core.upstream.module import find_upstream
from patchgen_core.upstream.releases import Releases, release_folder
from patchgen_core.upstream.versions import same_version


@dataclass(frozen=True)
class AdoptedFork:
    """A config that was written for a fork.

    Attributes:
        written: the config, the generated module and its diff.
        changes: what the config declares, each ``target: how``.
        left: in what the generated module is not the fork.
        lines, fork_lines: how long the config and the fork are.
        is_installed: whether the fork's release is the one that is installed.
    """

    path: Path
    origin: Origin
    written: tuple[Path, ...]
    changes: tuple[str, ...]
    left: tuple[Problem, ...]
    renamed: dict[str, str]
    lines: int
    fork_lines: int
    is_installed: bool

    @property
    def notes(self) -> list[str]:
        """What there is to know beside the changes."""
        notes = [
            f"{name} is {other}, upstream's name, in the generated module" for name, other in self.renamed.items()
        ]
        return notes


def adopt_fork(
    project: Project,
    fork: Path,
    *,
    module: str | None = None,
    release: str | None = None,
    output: Path | None = None,
    offline: bool = False,
    force: bool = False,
    progress: Callable[[str], None] = lambda version: None,
) -> AdoptedFork:
    """Write the config that makes a forked modeling file of upstream's module.

    The config, the generated module and its diff are written at once, after the module was compared with the fork.

    Args:
        module: upstream's modeling module; by default the one that has most of the fork's lines.
        release: the release of transformers that the fork was copied from; by default the one that is most like it.
        output: the config's file; by default ``<model>/<model>_gpu_patch_gen_config.py`` below the search root.
        offline: look only at releases that are installed or in the cache.
        force: overwrite an existing config.
        progress: is told the version of each release that is looked at.

    Raises:
        PatchgenError: the file is no fork of a modeling file; there is no such module or release; a release cannot be
            had; or the config is there already. Nothing was written then.
    """
    if output is not None:
        check_free(Path(output), force)
    file = read_fork(fork)
    releases = Releases(release_folder(project), offline=offline)
    origin = OriginFinder(file, releases, progress).find(module, release)
    upstream = find_upstream(origin.module, (origin.release.folder,))
    name = upstream.module.rpartition(".")[2].removeprefix("modeling_")
    path = Path(os.path.abspath(output or project.search_root / name / f"{name}_gpu{CONFIG_SUFFIX}"))
    check_free(path, force)
    of_release = replace(project, upstream=(origin.release.folder,))
    config = ForkWriter(of_release, file, upstream, path, _about(fork, origin)).write()
    config = replace(config, text=complete_new_config(of_release, path, config.text))
    files = [(path, config.text), *config.artifact.output()]
    write_files(files)
    installed = releases.installed()
    return AdoptedFork(
        path,
        origin,
        tuple(file for file, _ in files),
        config.changes,
        config.left,
        config.renamed,
        _count(config),
        len(file.source.lines) - 1,
        installed is not None and same_version(installed.version, origin.release.version),
    )


def _about(fork: Path, origin: Origin) -> list[str]:
    where = f"{origin.module} of transformers {origin.release.version}"
    return [
        f"What '{fork.name}' changes in upstream's module.",
        "",
        f"Written by 'patchgen adopt --fork {fork.name}'. The file is a fork of",
        f"{where}: {percent(origin.share)} of its lines are upstream's.",
        "From now on a config like any other.",
    ]


def _count(config: ForkConfig) -> int:
    return config.text.count("\n")
