"""What is started before the first item of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from patchgen_core.checks.check import Check
from patchgen_core.checks.session import Session


def start_checks(
    session: Session, items: Iterable[tuple[Check, Path, str]], jobs: int | None = 1, cluster: str = ""
) -> None:
    """Start what is slow to start for items that have to run: the processes that run them ahead, or those that checks
    ask from this one.

    Args:
        jobs: how many processes run them ahead; None for as many as there is room for.
        cluster: address of the Ray cluster that runs them; empty for this machine.
    """
    items = list(items)
    if cluster:
        from patchgen_core.checks.running.on_cluster import run_on_cluster

        run_on_cluster(session, items, cluster, jobs)
        items = [item for item in items if not item[0].runs_ahead]
    elif jobs != 1 and sum(check.runs_ahead for check, _, _ in items) > 1:
        from patchgen_core.checks.running.processes import run_in_processes

        if run_in_processes(session, items, jobs):
            items = [item for item in items if not item[0].runs_ahead]
    if session.home is not None:
        for check in dict.fromkeys(check for check, _, _ in items):
            check.prepare(session.home)
