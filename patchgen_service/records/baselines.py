"""Which run another is compared with, and why that one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import ColumnElement, Select, exists, select
from sqlalchemy.orm import Session

from patchgen_service.database.tables import Approval, Repository, Run, Trigger
from patchgen_service.database.words import COMPLETE
from patchgen_service.records.changes import set_changes
from patchgen_service.records.runs import lock_run

IsAncestor = Callable[[str, str], bool]
"""Whether the first commit is the second or one before it; False as well where one of them is gone."""
_MOST_CANDIDATES = 200


def is_accepted(runs: type[Run]) -> ColumnElement[bool]:
    """Whether runs passed, or had nothing but a drift that was approved."""
    approval = exists().where(Approval.run_id == runs.id, Approval.state.in_(("committed", "proposed")))
    return (runs.status == "passed") | ((runs.status == "drifted") & approval.correlate(runs))


def choose_baseline(session: Session, run_id: str, merge_base: str, is_ancestor: IsAncestor | None) -> Run:
    """Choose the baseline of a run, and set what in it is new, known or fixed.

    The baseline is the nearest passed or approved run of the branch that a pull request goes to, at or before
    ``merge_base``; for a push, of its branch or the default one, before its commit. ``previous`` is the nearest
    complete run among these, red or not: what was red there is not new here. A run with another release of
    transformers is compared with those without, its own commit's included.

    Args:
        merge_base: commit of which a pull request and its base branch both come; empty where there is none, and for a
            push.
        is_ancestor: tests commits; none where the repository is not at hand, and the newest run is taken.
    """
    run = lock_run(session, run_id)
    repository = session.get_one(Repository, run.repository_id)
    trigger = session.get_one(Trigger, run.trigger_id)
    base = trigger.base or repository.default_branch
    branches = [base] if run.pull_request else list(dict.fromkeys([run.branch, repository.default_branch]))
    place = _describe_place(run, base, merge_base)
    if run.pull_request and is_ancestor is not None and not merge_base:
        run.baseline_id = run.previous_id = None
        run.baseline_reason = f"none: this pull request and '{base}' have no commit in common"
        set_changes(session, run)
        return run
    newest = merge_base if run.pull_request else run.sha

    runs = _candidates(run, branches)
    if not run.pull_request and not run.transformers:
        runs = runs.where(Run.sha != run.sha)

    baseline = _nearest(session.scalars(runs.where(is_accepted(Run))).all(), newest, is_ancestor)
    previous = _nearest(session.scalars(runs.where(Run.status.in_(COMPLETE))).all(), newest, is_ancestor)
    if previous is baseline:
        previous = None
    run.baseline_id = baseline.id if baseline is not None else None
    run.previous_id = previous.id if previous is not None else None
    run.baseline_reason = _explain(baseline, previous, place, branches, is_known=is_ancestor is not None)
    set_changes(session, run)
    return run


def _candidates(run: Run, branches: Sequence[str]) -> Select[Run]:
    """Runs of branches themselves, the newest first; pull requests and forks are no reference for others."""
    return (
        select(Run)
        .where(
            Run.repository_id == run.repository_id,
            Run.branch.in_(branches),
            Run.pull_request == 0,
            Run.is_fork.is_(False),
            Run.transformers == "",
            Run.id != run.id,
        )
        .order_by(Run.number.desc())
        .limit(_MOST_CANDIDATES)
    )


def _nearest(runs: Sequence[Run], newest: str, is_ancestor: IsAncestor | None) -> Run | None:
    """The run of the commit that is nearest before ``newest``, or that itself; of runs of one commit, the first."""
    if is_ancestor is None:
        return runs[0] if runs else None
    best: Run | None = None
    commits: set[str] = set()
    for run in runs:
        if run.sha in commits or not is_ancestor(run.sha, newest):
            continue
        commits.add(run.sha)
        if best is None or is_ancestor(best.sha, run.sha):
            best = run
        if run.sha == newest:
            break
    return best


def _describe_place(run: Run, base: str, merge_base: str) -> str:
    if not run.pull_request:
        return f"before {_short(run.sha)}" if not run.transformers else f"at or before {_short(run.sha)}"
    if not merge_base:
        return f"before this pull request to '{base}'"
    return f"at or before {_short(merge_base)}, where this pull request leaves '{base}'"


def _explain(
    baseline: Run | None, previous: Run | None, place: str, branches: Sequence[str], *, is_known: bool
) -> str:
    """The reason in words."""
    names = " or ".join(f"'{branch}'" for branch in branches)
    if baseline is None:
        reason = f"no run of {names} {place} passed or was approved"
    else:
        how = "passed" if baseline.status == "passed" else "approved"
        which = f"the newest {how} run of {names} {place}" if is_known else f"the newest {how} run of {names}"
        reason = f"{_name(baseline)} is {which}"
    if previous is not None:
        reason += f"; what was red in {_name(previous)}, which is nearer, is known"
    if not is_known:
        reason += "; which commits come before this one is not known here"
    return reason


def _name(run: Run) -> str:
    return f"run {run.number} ({_short(run.sha)})"


def _short(sha: str) -> str:
    return sha[:7]
