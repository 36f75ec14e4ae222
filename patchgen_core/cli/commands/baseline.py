"""``patchgen baseline``: today's findings, recorded, so that only new ones fail."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from patchgen_core.checks.baseline import Baseline, baseline_path, read_baseline, record
from patchgen_core.checks.gate import Gate
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import DEVICES, DRIFT, Settings, read_settings
from patchgen_core.cli.arguments import add_no_cache, add_paths
from patchgen_core.cli.items import choose_checks, find_items, run_items
from patchgen_core.cli.printing import add_printing, make_console, print_json
from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.project.named_configs import split_by_project
from patchgen_core.project.parity_settings import LEVELS, STANDARD
from patchgen_core.project.project import Project
from patchgen_core.report.data import SCHEMA
from patchgen_core.report.gate.details import print_details, verdict_text
from patchgen_core.report.words import quantity


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Run the checks, and record what they find in a file to check in. From then on the gate fails on "
        "new findings only. What did not run stays in the file as it was.",
        epilog="Exit codes: 0 the file was written, 1 something is wrong that no baseline holds back: drift, or a "
        "config with errors, 2 usage or configuration error.",
    )
    add_paths(parser)
    add = parser.add_argument
    add("--checks", metavar="CHECKS", help="checks to run, separated by commas, such as contract (default: all)")
    add("--device", default=DEVICES[0], metavar="DEVICE", help=f"where models and kernels run: {', '.join(DEVICES)}")
    add("--isolate", action="store_true", help="run every check of a model or kernel in a process of its own")
    add("--time-limit", metavar="SECONDS", help="end a check of a model or kernel that takes longer (default: 600)")
    add("--dry-run", action="store_true", help="show what would be recorded, and write nothing")
    add("--level", help=f"how much parity varies: {', '.join(LEVELS)} (default: that of the project, or {STANDARD})")
    add_no_cache(parser)
    add_printing(parser, "print the result as JSON")
    parser.set_defaults(fix=False, prune=False)
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    parts = [(project, tuple(options.paths))] if project is not None else split_by_project(options.paths)
    if len(parts) > 1:
        bases = ", ".join(f"'{display_path(part.base)}'" for part, _ in parts)
        raise PatchgenError(f"each project has a baseline of its own, and these are {bases}")
    [(home, paths)] = parts
    names = [check.name for check in choose_checks(options)]
    settings = replace(read_settings(options, "", names), holds_back=False)
    before = read_baseline(home) or Baseline(baseline_path(home))
    results = _run_checks(options, home, paths, settings)
    after = record(before, results, is_whole=not paths)
    if not options.dry_run:
        after.write()
    others = [result for result in results if (result.is_bad and not result.errors) or result.status == "error"]
    if options.json:
        _print_json(options, before, after, others)
    else:
        _print(options, before, after, others)
    return int(bool(others))


def _run_checks(
    options: argparse.Namespace, project: Project, paths: Sequence[str], settings: Settings
) -> tuple[CheckResult, ...]:
    checks = choose_checks(options)
    session = Session(project, settings, artifacts=[check.name for check in checks] != [DRIFT])
    try:
        gate = Gate(session, checks)
        items = find_items(gate, project, paths)
        gate.refuse_machine(items)
        return run_items(gate, items, options)
    finally:
        session.close()


def _count_by_rule(baseline: Baseline) -> dict[str, int]:
    """How many findings a baseline has of each rule, or item where there is none; the most frequent first."""
    counts: Counter[str] = Counter()
    for known, number in baseline.counts.items():
        counts[known.code or known.item] += number
    return dict(sorted(counts.items(), key=lambda count: (-count[1], count[0])))


def _print(options: argparse.Namespace, before: Baseline, after: Baseline, others: Sequence[CheckResult]) -> None:
    console = make_console(options)
    for result in others:
        console.print(verdict_text(result), soft_wrap=True)
        print_details(console, result)
    for name, number in _count_by_rule(after).items():
        console.print(f"{number:5}  {name}")
    console.print(f"{'would be' if options.dry_run else 'wrote   '} {display_path(after.path)}")
    new, gone = (sum((Counter(a.counts) - Counter(b.counts)).values()) for a, b in ((after, before), (before, after)))
    console.print(
        f"{quantity(after.size, 'finding')}: {new} new, {gone} gone.", style="yellow" if after.size else "green"
    )
    if others:
        console.print("No baseline holds back drift, or a config with errors: mend what is shown above.", style="red")


def _print_json(options: argparse.Namespace, before: Baseline, after: Baseline, others: Sequence[CheckResult]) -> None:
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "exit_code": int(bool(others)),
        "file": display_path(after.path),
        "findings": after.size,
        "new": [str(known) for known in sorted(Counter(after.counts) - Counter(before.counts))],
        "gone": [str(known) for known in sorted(Counter(before.counts) - Counter(after.counts))],
        "by_rule": _count_by_rule(after),
        "not_recorded": [f"{result.config}: {result.name}: {result.headline}" for result in others],
    }
    print_json(data)
