"""``patchgen --check`` and ``patchgen check``: the gate's checks of the drift and of contracts, as a report of their
own."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from patchgen_core.build.results import DriftReport
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import DRIFT, Settings
from patchgen_core.cli.printing import make_console, print_json, show_progress, warn_of_failure
from patchgen_core.report.drift.summary import print_clean

if TYPE_CHECKING:
    from patchgen_core.checks.result import CheckResult


def check_configs(options: argparse.Namespace, selection: Selection) -> int:
    """Check what is selected, mend it where that is wanted, and print the results; returns the exit code."""
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
    if options.fix:
        report = fix(report, options.prune)
    exit_code = max(report.exit_code, int(any(result.is_bad for result in contracts)))
    if options.html is not None:
        from patchgen_core.report.drift.html import write_drift

        write_drift(report, contracts, options.html)
    if options.json:
        from patchgen_core.report.drift.json import drift_data

        print_json(drift_data(report, contracts))
    elif options.verbose or options.contracts or not print_clean(report, options.no_color):
        from patchgen_core.report.drift.terminal import print_contracts, print_drift

        print_drift(make_console(options), report, options.verbose)
        if options.contracts:
            print_contracts(make_console(options), contracts, options.verbose)
    return exit_code


def _check_contracts(session: Session, report: DriftReport) -> list[CheckResult]:
    """What the gate's contract check says of the configs that a report is about; it finds them made."""
    from patchgen_core.checks.gate import Gate
    from patchgen_core.checks.registry import BUILT_IN

    gate = Gate(session, [check for check in BUILT_IN if check.name in (DRIFT, "contract")])
    items = gate.items(dict.fromkeys(result.outcome.path for result in report.results))
    gate.choose(items)
    return [result for item in items if item.name != DRIFT for result in item.check.run(item.path, item.name)]
