"""``patchgen check --add-allow``: errors of contract rules, allowed in the configs with a reason."""

from __future__ import annotations

import argparse
import sys

from patchgen_core.authoring.allowances import allow_errors
from patchgen_core.cli.check import check_selection
from patchgen_core.cli.printing import make_console
from patchgen_core.cli.selecting import select_of
from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.project.named_configs import split_by_project
from patchgen_core.project.project import Project
from patchgen_core.report.terminal import print_problems


def add_allowances(options: argparse.Namespace, project: Project | None) -> None:
    """Write an allowance for every error that the contract rules find, and tell which, and what cannot be allowed.

    Raises:
        PatchgenError: there is no reason, a path is about no config, or a file cannot be written.
    """
    reason = options.add_allow.strip()
    if not reason:
        raise PatchgenError("--add-allow takes the reason why the findings are right")
    only_looks = argparse.Namespace(**vars(options) | {"fix": False, "prune": False, "html": None})
    parts = [(project, tuple(options.paths))] if project is not None else split_by_project(options.paths)
    checked = [check_selection(only_looks, select_of(options, part, names)) for part, names in parts]
    new = allow_errors([result for one in checked for result in one.contracts], reason)
    new.write()
    console = make_console(options, stderr=options.output_format != "text")
    for path in new.files:
        console.print(f"wrote    {display_path(path)}", soft_wrap=True)
    for allowance in new.written:
        console.print(f"         allowed {allowance}", soft_wrap=True)
    print_problems(console, new.refused, "warning")
    sys.stdout.flush()
