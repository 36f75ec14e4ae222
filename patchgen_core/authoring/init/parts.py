"""Everything that a repository needs for a gate, after a look at what it has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.authoring.init import pre_commit, ruff_settings, workflow
from patchgen_core.authoring.init.additions import Addition
from patchgen_core.authoring.init.project_table import ProjectTable, find_pyproject, make_table
from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.files import write_files
from patchgen_core.project.project import Project
from patchgen_core.project.pyproject import read_table
from patchgen_core.project.table import load_project

TABLE = "table"
PARTS = (TABLE, ruff_settings.PART, pre_commit.PART, workflow.PART)
_LACKS = {
    ruff_settings.PART: "there are no settings of ruff",
    pre_commit.PART: f"there is no {pre_commit.NAME}",
    workflow.PART: "there are no workflows",
}


@dataclass(frozen=True)
class Initialized:
    """What is added to a repository, part by part, and why other parts are left out.

    Attributes:
        project: what its table says, now or then.
        lacking: for each part that was not asked for and has no place here, what the repository lacks.
    """

    project: Project
    additions: tuple[Addition, ...]
    lacking: tuple[tuple[str, str], ...]

    def write(self) -> None:
        """Write all files or none; a PatchgenError when one cannot be."""
        write_files({addition.path: addition.text for addition in self.additions if addition.text}.items())


def make_parts(
    start: Path, search_root: Path | None = None, package_prefix: str = "", parts: Sequence[str] = ()
) -> Initialized:
    """What is to be added to the repository around a folder; nothing is written.

    Args:
        search_root, package_prefix: as for :func:`make_table`; with one of them a table that is there is an error.
        parts: which of ``PARTS``; by default the table, and those that the repository has a place for.

    Raises:
        PatchgenError: as :func:`make_table`, or there is no such part.
    """
    for part in parts:
        if part not in PARTS:
            raise PatchgenError(
                f"there is no part '{part}'", None, did_you_mean(part, PARTS) or f"Parts: {', '.join(PARTS)}."
            )
    path = find_pyproject(Path(os.path.abspath(start)))
    is_new = search_root is not None or bool(package_prefix) or not path.is_file() or read_table(path) is None
    table = make_table(start, search_root, package_prefix) if is_new else None
    project = table.project if table is not None else load_project(path.parent)
    base, root = path.parent, _repository_root(path.parent)
    places = {
        TABLE: True,
        ruff_settings.PART: ruff_settings.find_ruff_file(base) is not None,
        pre_commit.PART: (root / pre_commit.NAME).is_file(),
        workflow.PART: workflow.has_ci(root),
    }
    chosen = [part for part in PARTS if part in parts or (not parts and places[part])]
    additions: list[Addition] = []
    if TABLE in chosen:
        additions.append(_table_addition(table, path))
    if ruff_settings.PART in chosen:
        file = ruff_settings.find_ruff_file(base) or path
        text = next((one.text for one in additions if one.path == file and one.text), None)
        additions.append(ruff_settings.add_ignores(file, text))
    if pre_commit.PART in chosen:
        additions.append(pre_commit.add_hook(root))
    if workflow.PART in chosen:
        additions.append(workflow.add_workflow(root, base))
    lacking = [] if parts else [(part, _LACKS[part]) for part in PARTS if not places[part]]
    return Initialized(project, tuple(additions), tuple(lacking))


def _table_addition(table: ProjectTable | None, path: Path) -> Addition:
    if table is None:
        return Addition(TABLE, path, is_there=True, reason="it has a table [tool.patchgen]")
    return Addition(TABLE, path, table.table, table.text)


def _repository_root(base: Path) -> Path:
    """The folder with ``.git`` around a project; its own where there is none."""
    return next((folder for folder in (base, *base.parents) if (folder / ".git").exists()), base)
