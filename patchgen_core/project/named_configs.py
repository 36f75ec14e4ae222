"""What people name to say which configs they mean: folders, files, dotted modules and node ids, of one project or of
several."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from patchgen_core.errors import Location, PatchgenError, display_path
from patchgen_core.project.file_tree import walk_files
from patchgen_core.project.project import CONFIG_SUFFIX, Project
from patchgen_core.project.pyproject import PYPROJECT, declares_project
from patchgen_core.project.table import has_table, load_project


def find_named_configs(project: Project, names: Iterable[str]) -> list[Path]:
    """The config files that names mean, each once: those in a folder, that of a file, a dotted module or a node id.

    Raises:
        PatchgenError: there is none of a name; the nearest one is named.
    """
    return list(dict.fromkeys(path for name in names for path in _find_configs_of(project, name)))


def _find_configs_of(project: Project, name: str) -> list[Path]:
    path = path_of(name)
    if not os.path.isdir(path):
        return [project.config_path(path)]
    legacy = {file for file in project.find_configs() if not file.name.endswith(CONFIG_SUFFIX)}
    files = walk_files(Path(os.path.abspath(path)))
    if not (configs := sorted(file for file in files if file.name.endswith(CONFIG_SUFFIX) or file in legacy)):
        raise PatchgenError(f"there is no patch config in {path}: its name ends in '{CONFIG_SUFFIX}'")
    return configs


def path_of(name: str) -> str:
    """A name without the item of a node id, such as ``drift`` of ``a_patch_gen_config.py::drift``."""
    return name.partition("::")[0]


def is_whole(project: Project, names: Iterable[str]) -> bool:
    """Whether one of the names is a folder that has all configs of a project."""
    return any(os.path.isdir(name) and project.search_root.is_relative_to(os.path.abspath(name)) for name in names)


def split_by_project(names: Sequence[str]) -> list[tuple[Project, tuple[str, ...]]]:
    """The projects that names are about, each with its names.

    A path belongs to the project around it, a folder with several projects to each of these; a dotted module and no
    name at all to the project around the working directory.

    Raises:
        PatchgenError: a name is about no project.
    """
    names_by_base: dict[Path, list[str]] = {}
    projects: dict[Path, Project] = {}
    for name in names:
        for start, part in _find_starts(name):
            project = load_project(start)
            projects.setdefault(project.base, project)
            names_by_base.setdefault(project.base, []).append(part)
    if not names:
        return [(load_project(), ())]
    return [(projects[base], tuple(parts)) for base, parts in names_by_base.items()]


def find_named_project(names: Sequence[str]) -> Project:
    """The one project that names are about: that around the working directory, where there are none.

    Raises:
        PatchgenError: there is none, or there are several.
    """
    projects = [project for project, _ in split_by_project(names)]
    if len(projects) > 1:
        bases = ", ".join(f"'{display_path(project.base)}'" for project in projects)
        raise PatchgenError(f"these are configs of several projects: {bases}", None, "Name those of one at a time.")
    return projects[0]


def _find_starts(name: str) -> list[tuple[Path | None, str]]:
    """From which folders to look for the project of a name, and what of the name is about that project."""
    path = path_of(name)
    if not os.path.exists(path):
        return [(None, name)]
    folder = Path(os.path.abspath(path))
    if not folder.is_dir():
        return [(folder.parent, name)]
    if has_table(folder):
        return [(folder, name)]
    bases = sorted(_find_projects_below(folder))
    if not bases:
        raise PatchgenError(
            f"there is no project in '{path}', above it or below it",
            Location(str(folder)),
            "A project has a pyproject.toml with a [tool.patchgen] table; 'patchgen init' adds one.",
        )
    return [(base, str(base)) for base in bases]


def _find_projects_below(folder: Path) -> Iterator[Path]:
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        if PYPROJECT in files and declares_project(Path(at, PYPROJECT)):
            yield Path(at)
