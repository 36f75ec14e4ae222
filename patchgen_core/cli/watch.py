"""What ``patchgen --watch`` prints."""

from __future__ import annotations

import argparse
import gc
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.build.selection import Selection
from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.project.project import Project
from patchgen_core.watch.events import Batch, Watcher
from patchgen_core.watch.session import Update, WatchSession

if TYPE_CHECKING:
    from rich.console import Console

    from patchgen_core.build.results import ConfigResult
    from patchgen_core.cli.watch_checks import WatchedChecks

_MOST_NAMED = 3


def watch(
    options: argparse.Namespace,
    load: Callable[[], Project],
    select: Callable[[Project], Selection],
    console: Console,
) -> int:
    """Keep the generated files up to date until the user interrupts; the exit code.

    ``load`` finds the project, and is called again when its settings change; ``select`` gives those of its configs
    that the command line names.

    Raises:
        PatchgenError: it cannot start: watchfiles is not installed, there is no project or no config.
    """
    watcher = Watcher()
    checks = _find_checks(options, console)
    session = WatchSession(load, select, not options.no_cache)
    interrupt = Interrupt()

    def show(batch: Batch) -> None:
        update = _show(session, batch, console, options.verbose)
        if checks is not None:
            _begin(checks, session, update, batch)

    try:
        watcher.follow(session.folders)
        if checks is not None:
            checks.warm_up(session.project)
        _start(watcher, session, console, options.verbose, show, checks.description if checks is not None else "")
        while not interrupt.is_noted:
            batch = watcher.wait(session.outputs)
            if batch:
                show(batch)
                if batch.folders:
                    watcher.forget()
                _follow(watcher, session, show)
            elif session.warm_up():
                _collect()
            if checks is not None:
                checks.show()
    except KeyboardInterrupt:
        pass
    finally:
        interrupt.close()
        session.close()
        if checks is not None:
            checks.close()
    console.print("no longer watching")
    return 0


class Interrupt:
    """Notes an interrupt beside raising it: one that is raised while Python frees an object reaches nobody."""

    def __init__(self) -> None:
        self.is_noted = False
        self._before = signal.signal(signal.SIGINT, self._note)

    def _note(self, *_: object) -> None:
        self.is_noted = True
        raise KeyboardInterrupt

    def close(self) -> None:
        """Leave interrupts to who had them before."""
        signal.signal(signal.SIGINT, self._before)


def _find_checks(options: argparse.Namespace, console: Console) -> WatchedChecks | None:
    """What runs the checks that are asked for; None where none is."""
    if getattr(options, "checks", None) is None:
        return None
    from patchgen_core.cli.watch_checks import WatchedChecks, choose_watched_checks

    return WatchedChecks(choose_watched_checks(options), console, not options.no_cache, options.verbose)


def _begin(checks: WatchedChecks, session: WatchSession, update: Update, batch: Batch) -> None:
    """Run the other checks of what a change concerns."""
    if session.touches_upstream(batch):
        checks.warm_up(session.project)
    if configs := session.find_concerned(update, batch):
        checks.begin(session.project.base, configs)


def _start(
    watcher: Watcher,
    session: WatchSession,
    console: Console,
    verbose: bool,
    show: Callable[[Batch], None],
    checks: str,
) -> None:
    """Check everything and write what drifted; ``checks`` names those that run after each save beside that."""
    from patchgen_core.report.diff import rich_diff
    from patchgen_core.report.drift.terminal import print_drift

    print_drift(console, session.start(), verbose)
    _collect()
    _follow(watcher, session, show)
    if session.cache_failure:
        console.print(f"warning: results cannot be kept: {session.cache_failure}", style="yellow", soft_wrap=True)
    where = display_path(session.project.search_root)
    then = f"drifted files are rewritten, then checked by {checks}" if checks else "drifted files are rewritten"
    console.print(f"Watching '{where}': {then}. Press Ctrl-C to stop.", style="cyan", soft_wrap=True)
    rich_diff("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n")  # the first save need not wait for what this imports


def _follow(watcher: Watcher, session: WatchSession, show: Callable[[Batch], None]) -> None:
    """Watch what there is to be watched by now, and look at what happened there before."""
    while watcher.follow(session.folders):
        show(Batch(is_lost=True))


def _show(session: WatchSession, batch: Batch, console: Console, verbose: bool) -> Update:
    """Generate what a change concerns, and print what came of it."""
    began = time.perf_counter()
    update = session.update(batch)
    if update:
        print_update(console, update, batch.files, began, verbose)
        _print_contracts(console, session, update)
    _collect()
    return update


def _print_contracts(console: Console, session: WatchSession, update: Update) -> None:
    """Print what the contract rules find in what a change had made."""
    from patchgen_core.report.terminal import print_problems

    try:
        for result in session.examine(update):
            print_problems(console, result.errors)
            print_problems(console, result.warnings, "warning")
    except PatchgenError as error:
        print_problems(console, error.problems)


def print_update(console: Console, update: Update, changed: Iterable[Path], began: float, verbose: bool) -> None:
    """Print what came of a change: its files, each config that is not as it was with the diff, and how long it took.

    With ``verbose`` long diffs are printed whole. ``began`` is when the change was noticed, by ``perf_counter``.
    """
    from rich.text import Text

    from patchgen_core.report.drift.summary import drift_summary
    from patchgen_core.report.drift.terminal import print_orphans
    from patchgen_core.report.terminal import print_problems

    console.print(Text(f"\n{_names(changed)}", "dim"), soft_wrap=True)
    print_problems(console, update.problems)
    for label in update.gone:
        console.print(Text.assemble(("gone     ", "yellow"), (label, "bold")), soft_wrap=True)
    for result in update.report.results:
        _print_result(console, result, result.outcome.label in update.repaired, verbose)
    print_orphans(console, update.report.orphans)
    summary = drift_summary(update.report) if update.report.results or update.report.orphans else ()
    for number, (text, style) in enumerate(summary):
        taken = f" Took {1000 * (time.perf_counter() - began):.0f} ms."
        console.print(Text(text + taken * (not number), style), soft_wrap=True)


def _names(changed: Iterable[Path]) -> str:
    """The first of the files that were changed, and how many more there are."""
    paths = sorted(map(display_path, changed))
    more = len(paths) - _MOST_NAMED
    named = ", ".join(paths[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{named}: changed" if paths else "changed"


def _print_result(console: Console, result: ConfigResult, is_repaired: bool, verbose: bool) -> None:
    """Print a verdict with what differed, and what was written."""
    from rich.text import Text

    from patchgen_core.checks.result import FileDifference, Status, clean, drift_result
    from patchgen_core.report.gate.details import print_details, verdict_text

    record = drift_result(replace(result, files=()))
    line = verdict_text(record)
    if is_repaired:
        line.append("  its errors are fixed", "green")
    console.print(line, soft_wrap=True)
    files = []
    for file in result.files:
        is_shown = file.path.suffix == ".py" or len(result.files) == 1
        files.append(
            FileDifference(str(file.path), file.old is None, "", clean(file.telling_diff) if is_shown else "")
        )
    status: Status = "drifted" if result.status == "fixed" else record.status
    print_details(console, replace(record, status=status, files=tuple(files)), verbose)
    if result.status != "fixed":
        return
    for file in result.files:
        console.print(Text(f"         wrote {display_path(file.path)}"), soft_wrap=True)
    if any(cause.kind == "edited by hand" for cause in result.causes):
        hint = f"         This file is generated: edit {display_path(result.outcome.path)}."
        console.print(Text(hint, "cyan"), soft_wrap=True)


def _collect() -> None:
    """Collect the cycles that were made, where Python does not do so by itself, as in ``patchgen``."""
    if not gc.isenabled():
        gc.collect()
        gc.freeze()  # what is left stays, so that the next time does not look at it again
