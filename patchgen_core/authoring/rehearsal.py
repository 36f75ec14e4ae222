"""What a config makes with other texts of its files, before these are written."""

from __future__ import annotations

from collections.abc import Mapping
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
    edited = sources.fork()
    try:
        for path, file in files.items():
            edited.put(path, file.text)
        configs = Loader(project, edited).load(loaded.path, loaded.name)
        [outcome] = make_outcomes(project, configs, edited)
    except PatchgenError as error:
        return error.problems[0].message
    return outcome.artifact or outcome.problems[0].message
