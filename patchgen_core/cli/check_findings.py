"""What ``patchgen check`` finds beside drift, and how it is counted and written: what a check of the drift alone that
finds nothing need not import."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from patchgen_core.build.results import DriftReport, Progress
from patchgen_core.build.selection import Selection
from patchgen_core.checks.baseline_use import BaselineUse, close_baselines
from patchgen_core.checks.contract.check import ContractCheck
from patchgen_core.checks.contract.onlooker import ContractOnlooker
from patchgen_core.checks.gate import Gate
from patchgen_core.checks.kept.asking import find_fresh, run_check
from patchgen_core.checks.registry import BUILT_IN
from patchgen_core.checks.result import CheckResult, drift_result, orphans_result
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import CONTRACT, DRIFT
from patchgen_core.checks.verdicts import judge_results
from patchgen_core.cli.checked import Checked
from patchgen_core.cli.printing import make_console, print_findings, print_json
from patchgen_core.project.pyproject import PYPROJECT
from patchgen_core.report.gate.report import GateReport


def check_with_contracts(
    session: Session, selection: Selection, progress: Progress | None, shrinks: bool
) -> tuple[DriftReport, list[CheckResult], list[BaselineUse]]:
    """The drift of what is selected, and what the gate's contract check says of it, now or in an earlier run that
    still holds; and what of that the project's baseline holds back, as :func:`close_baselines` says."""
    gate = Gate(session, [check for check in BUILT_IN if check.name in (DRIFT, CONTRACT)])
    items = gate.items(selection.find_configs())
    fresh = find_fresh(session, [(item.check, item.path, item.name) for item in items])
    needed = {path for _, path, name in fresh if name == CONTRACT}
    rules = next(check for check in gate.checks if isinstance(check, ContractCheck))
    onlooker = ContractOnlooker(session, selection.project, rules, needed)
    report = session.check(selection, progress, needed, onlooker)
    contracts: list[CheckResult] = []
    for item in items:
        if item.name == CONTRACT:
            results = onlooker.take_results(item.path) or run_check(session, item.check, item.path, item.name)
            contracts += judge_results(results, item.name, session)
    return report, contracts, close_baselines(session, contracts, selection.is_whole, shrinks)


def print_counted(options: argparse.Namespace, checked: Sequence[Checked], root: Path) -> None:
    """Print what was found in a format that is not for people, or how much it was; paths are relative to ``root``."""
    if options.json:
        _print_json(options, checked)
    elif options.output_format != "text":
        print_findings(options.output_format, _join(checked), root)
    else:
        _print_statistics(options, _count_findings(checked))


def _count_findings(checked: Iterable[Checked]) -> dict[str, int]:
    """How often each state of a drifted config was found, and each rule, errors and warnings apart; the most frequent
    first."""
    counts: Counter[str] = Counter()
    for one in checked:
        results = (drift_result(result) for result in one.report.results)
        counts.update(result.status for result in results if result.is_bad)
        counts.update(f"{problem.code} error" for result in one.contracts for problem in result.errors)
        counts.update(f"{problem.code} warning" for result in one.contracts for problem in result.warnings)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _join(checked: Iterable[Checked]) -> GateReport:
    """What was found as a run of the gate's checks."""
    results: list[CheckResult] = []
    for one in checked:
        results += [*map(drift_result, one.report.results), *one.contracts]
        if one.report.orphans and one.report.project is not None:
            results.append(orphans_result(one.report.project.base / PYPROJECT, one.report.orphans, "failed"))
    return GateReport(tuple(results))


def _print_json(options: argparse.Namespace, checked: Sequence[Checked]) -> None:
    from patchgen_core.report.drift.json import drift_data

    data = [drift_data(one.report, one.contracts) for one in checked]
    joined = data[0] | {key: [row for part in data for row in part[key]] for key in ("configs", "orphans", "removed")}
    joined["exit_code"] = max(part["exit_code"] for part in data)
    print_json(joined | {"statistics": _count_findings(checked)} if options.statistics else joined)


def _print_statistics(options: argparse.Namespace, counts: Mapping[str, int]) -> None:
    from patchgen_core.checks.contract.run import EVERY_RULE

    names = {rule.code: rule.name for rule in EVERY_RULE}
    for key, count in counts.items():
        name = names.get(key.partition(" ")[0], "")
        make_console(options).print(f"{count:5}  {key}{f': {name}' if name else ''}", soft_wrap=True)
