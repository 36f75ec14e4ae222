"""``patchgen --check`` and ``patchgen check``: the gate's checks of the drift and of contracts, as a report of their
own."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from patchgen_core.cli.checked import Checked
from patchgen_core.cli.completing import complete_configs, tell_completed
from patchgen_core.cli.printing import make_console, show_progress, tell_baselines, warn_of_failure
from patchgen_core.cli.selecting import select_of
from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.project.named_configs import split_by_project
from patchgen_core.report.drift.summary import print_clean

if TYPE_CHECKING:
    from patchgen_core.checks.baseline_use import BaselineUse
    from patchgen_core.checks.result import CheckResult
    from patchgen_core.project.project import Project


def check_projects(options: argparse.Namespace, project: Project | None) -> int:
    """Check what the options' paths name, in each project that they lie in; returns the exit code.

    Raises:
        PatchgenError: a path is about no config, or a page is wanted of several projects.
    """
    parts = [(project, tuple(options.paths))] if project is not None else split_by_project(options.paths)
    if options.html is not None and len(parts) > 1:
        bases = ", ".join(f"'{display_path(part.base)}'" for part, _ in parts)
        raise PatchgenError(f"--html writes the results of one project, but these are {bases}")
    checked = []
    for part, names in parts:
        checked.append(check_selection(options, select_of(options, part, names)))
        if options.output_format == "text":
            if len(parts) > 1:
                print(f"{display_path(part.base)}:", flush=True)
            _print(options, checked[-1])
            tell_completed(options, checked[-1].completed)
    if options.output_format != "text":
        tell_baselines(use for one in checked for use in one.baselines)
        tell_completed(options, (path for one in checked for path in one.completed))
    if options.output_format != "text" or options.statistics:
        from patchgen_core.cli.check_findings import print_counted

        print_counted(options, checked, parts[0][0].base)
    return 0 if options.exit_zero else max(one.exit_code for one in checked)


def check_selection(options: argparse.Namespace, selection: Selection) -> Checked:
    """Check what is selected of a project, and mend it where that is wanted."""
    project, select = selection.project, options.select
    settings = Settings(
        caching=not options.no_cache,
        select=None if select is None else tuple(select),
        ignore=tuple(options.ignore or ()),
    )
    session = Session(project, settings, artifacts=options.contracts, with_forks=True)
    contracts: Sequence[CheckResult] = ()
    uses: Sequence[BaselineUse] = ()
    try:
        with show_progress(options) as progress:
            if options.contracts:
                from patchgen_core.cli.check_findings import check_with_contracts

                report, contracts, uses = check_with_contracts(session, selection, progress, options.fix)
            else:
                report = session.check(selection, progress)
        warn_of_failure(session.cache(project))
    finally:
        session.close()  # before anything is mended: what is kept holds for what is there now
    completed: tuple[Path, ...] = ()
    if options.fix:
        report = fix(report, options.prune)
        completed = complete_configs((result.outcome.path for result in report.results), lambda path: project)
    if options.html is not None:
        from patchgen_core.report.drift.html import write_drift

        write_drift(report, contracts, options.html)
    return Checked(report, tuple(contracts), tuple(uses), completed)


def _print(options: argparse.Namespace, checked: Checked) -> None:
    if options.verbose or options.contracts or not print_clean(checked.report, options.no_color):
        from patchgen_core.report.drift.terminal import print_contracts, print_drift
        from patchgen_core.report.gate.baseline import baseline_lines
        from patchgen_core.report.gate.terminal import print_lines

        print_drift(make_console(options), checked.report, options.verbose, _command(options))
        if options.contracts:
            print_contracts(make_console(options), checked.contracts, options.verbose)
            print_lines(make_console(options), baseline_lines(checked.baselines, "patchgen check --fix"))


def _command(options: argparse.Namespace) -> str:
    """What rewrites the files of the same run."""
    start = ["patchgen", "fix"] if options.contracts else ["patchgen", "--check", "--fix"]
    home = getattr(options, "home_of_project", None)
    chosen = ["--project", str(home)] if home is not None else []
    return shlex.join([*start, *chosen, *options.paths])
