"""Which configs of a project a run is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.project.named_configs import find_named_configs, is_whole
from patchgen_core.project.project import Project, no_configs


@dataclass(frozen=True)
class Selection:
    """Configs of a project, and what is wanted of them.

    Attributes:
        configs: config files; None for all of the project's.
        name: the variable to take from each file; None for all configs that the file makes.
        output: output folder instead of ``generated/`` beside each config. Changes no byte of the result.
        with_diffs: make ready for the diffs of all, and not only for those that belong on disk.
    """

    project: Project
    configs: Sequence[Path] | None = None
    name: str | None = None
    output: Path | None = None
    with_diffs: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it is all that the project makes; only then can a generated file be an orphan."""
        return self.configs is None and self.name is None and self.output is None

    def find_configs(self) -> list[Path]:
        """The config files; a PatchgenError when there is none."""
        configs = self.project.find_configs() if self.configs is None else list(self.configs)
        if not configs:
            raise no_configs(self.project)
        return configs


def select_configs(
    project: Project, names: Sequence[str], variable: str | None = None, output: Path | None = None
) -> Selection:
    """The configs of some folders, files, dotted modules or node ids, each once; all of the project's where none is
    named, or a folder that has all.

    Raises:
        PatchgenError: there is no such config.
    """
    if is_whole(project, names):
        return Selection(project, None, variable, output)
    return Selection(project, tuple(find_named_configs(project, names)) or None, variable, output)
