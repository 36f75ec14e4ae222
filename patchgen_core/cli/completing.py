"""What mends drift also completes: the imports of configs by which type checkers know upstream's names."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from patchgen_core.cli.printing import make_console
from patchgen_core.project.project import Project
from patchgen_core.report.words import completed_line


def complete_configs(paths: Iterable[Path], find_project: Callable[[Path], Project]) -> tuple[Path, ...]:
    """Write the imports that config files, and those that they patch with, lack under ``if TYPE_CHECKING:``.

    Returns:
        The files that were written.

    Raises:
        PatchgenError: one cannot be read or written, or ruff cannot run with a project's settings.
    """
    from patchgen_core.authoring.type_imports.complete import mend_type_imports  # libcst, where nothing is mended

    return mend_type_imports(paths, find_project)


def tell_completed(options: argparse.Namespace, paths: Iterable[Path]) -> None:
    """Print which files were completed, beside a report that is for machines."""
    for path in paths:
        console = make_console(
            options, stderr=options.output_format != "text"
        )  # rich, where there is something to tell
        console.print(completed_line(path), soft_wrap=True)
