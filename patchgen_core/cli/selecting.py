"""The configs and the project that a command line names."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.cli.printing import make_console
from patchgen_core.project.named_configs import find_named_project
from patchgen_core.project.project import Project

if TYPE_CHECKING:
    from patchgen_core.build.selection import Selection


def select_named(options: argparse.Namespace, project: Project | None) -> Selection:
    """What the options name of one project: of the one given, or of the one that paths lie in."""
    return select_of(options, project or find_named_project(options.paths), options.paths)


def select_of(options: argparse.Namespace, project: Project, names: list[str] | tuple[str, ...]) -> Selection:
    """The selection that names mean in a project, with the options' variable and output folder."""
    from patchgen_core.build.selection import select_configs

    folder: Path | None = getattr(options, "output_dir", None)
    output = Path(os.path.abspath(folder)) if folder is not None else None
    return select_configs(project, names, options.config_name, output)


def watch_named(options: argparse.Namespace, project: Project | None) -> int:
    """Watch what the options name; returns the exit code."""
    from patchgen_core.cli.watch import watch

    load = (lambda: project) if project is not None else (lambda: find_named_project(options.paths))
    return watch(options, load, lambda loaded: select_of(options, loaded, options.paths), make_console(options))
