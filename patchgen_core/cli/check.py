"""``patchgen --check`` and ``patchgen check``: the gate's checks of the drift and of contracts, as a report of their
own."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.build.results import DriftReport
from patchgen_core.build.selection import Selection
from patchgen_core.checks.baseline_use import BaselineUse, close_baselines
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.result import CheckResult, drift_result, orphans_result
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import DRIFT, Settings
from patchgen_core.checks.verdicts import judge_results
from patchgen_core.cli.completing import complete_configs, tell_completed
from patchgen_core.cli.printing import (
    make_console,
    print_findings,
    print_json,
    show_progress,
    tell_baselines,
    warn_of_failure,
)
from patchgen_core.cli.selecting import select_of
from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.project.named_configs import split_by_project
from patchgen_core.project.pyproject import PYPROJECT
from patchgen_core.report.drift.summary import print_clean
from patchgen_core.report.gate.report import GateReport

if TYPE_CHECKING:
    from patchgen_core.project.project import Project


@dataclass(frozen=True)
class Checked:
    """What was found in one project; ``completed`` are files whose imports for type checkers were written."""

    report: DriftReport
    contracts: tuple[CheckResult, ...] = ()
    baselines: tuple[BaselineUse, ...] = ()
    completed: tuple[Path, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 where there is a finding, else 0."""
        return max(self.report.exit_code, int(any(result.is_bad for result in self.contracts)))


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
    if options.json:
        _print_json(options, checked)
    elif options.output_format != "text":
        print_findings(options.output_format, _join(checked), parts[0][0].base)
    elif options.statistics:
        _print_statistics(options, count_findings(checked))
    return 0 if options.exit_zero else max(one.exit_code for one in checked)


def count_findings(checked: Iterable[Checked]) -> dict[str, int]:
    """How often each state of a drifted config was found, and each rule, errors and warnings apart; the most frequent
    first."""
    counts: Counter[str] = Counter()
    for one in checked:
        results = (drift_result(result) for result in one.report.results)
        counts.update(result.status for result in results if result.is_bad)
        counts.update(f"{problem.code} error" for result in one.contracts for problem in result.errors)
        counts.update(f"{problem.code} warning" for result in one.contracts for problem in result.warnings)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def check_selection(options: argparse.Namespace, selection: Selection) -> Checked:
    """Check what is selected of a project, and mend it where that is wanted."""
    project, select = selection.project, options.select
    settings = Settings(
        caching=not options.no_cache,
        select=None if select is None else tuple(select),
        ignore=tuple(options.ignore or ()),
    )
    session = Session(project, settings, artifacts=options.contracts)
    with show_progress(options) as progress:
        report = session.check(selection, progress)
    warn_of_failure(session.cache(project))
    contracts = _check_contracts(session, report) if options.contracts else []
    uses = close_baselines(session, contracts, selection.is_whole, options.fix)
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


def _join(checked: Iterable[Checked]) -> GateReport:
    """What was found as a run of the gate's checks."""
    results: list[CheckResult] = []
    for one in checked:
        results += [*map(drift_result, one.report.results), *one.contracts]
        if one.report.orphans and one.report.project is not None:
            results.append(orphans_result(one.report.project.base / PYPROJECT, one.report.orphans, "failed"))
    return GateReport(tuple(results))


def _print_statistics(options: argparse.Namespace, counts: Mapping[str, int]) -> None:
    from patchgen_core.checks.contract.run import EVERY_RULE

    names = {rule.code: rule.name for rule in EVERY_RULE}
    for key, count in counts.items():
        name = names.get(key.partition(" ")[0], "")
        make_console(options).print(f"{count:5}  {key}{f': {name}' if name else ''}", soft_wrap=True)


def _print_json(options: argparse.Namespace, checked: Sequence[Checked]) -> None:
    from patchgen_core.report.drift.json import drift_data

    data = [drift_data(one.report, one.contracts) for one in checked]
    joined = data[0] | {key: [row for part in data for row in part[key]] for key in ("configs", "orphans", "removed")}
    joined["exit_code"] = max(part["exit_code"] for part in data)
    print_json(joined | {"statistics": count_findings(checked)} if options.statistics else joined)


def _check_contracts(session: Session, report: DriftReport) -> list[CheckResult]:
    """What the gate's contract check says of the configs that a report is about; it finds them made."""
    from patchgen_core.checks.gate import Gate
    from patchgen_core.checks.registry import BUILT_IN

    gate = Gate(session, [check for check in BUILT_IN if check.name in (DRIFT, "contract")])
    items = gate.items(dict.fromkeys(result.outcome.path for result in report.results))
    gate.choose(items)
    chosen = (item for item in items if item.name != DRIFT)
    results = (judge_results(item.check.run(item.path, item.name), item.name, session) for item in chosen)
    return [result for of_item in results for result in of_item]
