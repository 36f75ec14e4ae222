"""What a config makes with other texts of its files, before these are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from patchgen_core.authoring.edits.config_file import EditedFile
from patchgen_core.build.artifacts import make_outcomes
from patchgen_core.build.results import Artifact
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache


def rehearse(
    project: Project, loaded: LoadedConfig, sources: SourceCache, files: Mapping[Path, EditedFile]
) -> Artifact | str:
    """What a config makes, or why it makes nothing; ``sources`` has the files that are not edited."""
    artifacts = rehearse_all(project, [loaded], sources, files)
    return artifacts if isinstance(artifacts, str) else artifacts[0]


def rehearse_all(
    project: Project, configs: Sequence[LoadedConfig], sources: SourceCache, files: Mapping[Path, EditedFile]
) -> list[Artifact] | str:
    """What configs make, or why one of them makes nothing; ``sources`` has the files that are not edited."""
    edited = sources.fork()
    try:
        for path, file in files.items():
            edited.put(path, file.text)
        loader = Loader(project, edited)
        loaded = [config for old in configs for config in loader.load(old.path, old.name)]
        outcomes = make_outcomes(project, loaded, edited)
    except PatchgenError as error:
        return error.problems[0].message
    problems = [problem for outcome in outcomes for problem in outcome.problems]
    artifacts = [outcome.artifact for outcome in outcomes if outcome.artifact is not None]
    return artifacts if len(artifacts) == len(outcomes) else problems[0].message
