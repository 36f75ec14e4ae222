"""What webhooks ask for: runs of new commits, runs once more, runs that nobody needs any longer, and approvals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_core.report import markdown
from patchgen_service.accounts.people import find_linked_person, name_provider
from patchgen_service.accounts.roles import may
from patchgen_service.database.tables import Repository, Run, Trigger
from patchgen_service.database.words import UNFINISHED
from patchgen_service.forges.delivery import Delivery
from patchgen_service.forges.github.payloads import DIGEST_LENGTH
from patchgen_service.posting.words import one_line, run_address
from patchgen_service.records.approvals import ApprovalRefused, approve, digest_regenerated
from patchgen_service.records.deliveries import read_times
from patchgen_service.records.new_runs import RunCause, begin_run, begin_runs, repeat_cause
from patchgen_service.records.posts import queue_post
from patchgen_service.records.runs import cancel_run

_LONGEST_SUBJECT = 300
_MOST_TOLD = 100
_MOVES_BRANCH = ("push", "pull_request")


@dataclass(frozen=True)
class DeliveryAnswer:
    """What came of a delivery: the ``run`` that it began or joined, its approval, and the runs that it cancelled.

    Attributes:
        is_pending: whether the run is to be carried out; if not, it was before, or a newer one has its place.
    """

    run: str = ""
    is_pending: bool = False
    approval: int | None = None
    cancelled: tuple[str, ...] = ()


def answer_deliveries(
    session: Session, repository: Repository, deliveries: Iterable[Delivery], base_url: str, now: datetime
) -> list[DeliveryAnswer]:
    """Do what deliveries ask for in their order, and return what came of each; those of pushes are done together."""
    answers: list[DeliveryAnswer] = []
    for moves_branch, group in groupby(deliveries, lambda delivery: delivery.kind in _MOVES_BRANCH):
        if moves_branch:
            runs = begin_runs(session, repository, [_read_cause(delivery) for delivery in group], now)
            answers += map(_answer_with, runs)
        else:
            answers += [answer_delivery(session, repository, delivery, base_url, now) for delivery in group]
    return answers


def answer_delivery(
    session: Session, repository: Repository, delivery: Delivery, base_url: str, now: datetime
) -> DeliveryAnswer:
    """Do what a delivery asks for; the same delivery again changes nothing more.

    Runs are begun, not carried out, and an approval is noted as pending. A ValueError where a text is too long.
    """
    if delivery.kind == "approve":
        return DeliveryAnswer(approval=_approve(session, repository, delivery, base_url, now))
    if delivery.kind == "closed":
        return DeliveryAnswer(cancelled=_cancel(session, repository, delivery, now))
    if delivery.kind != "rerun":
        return _answer_with(begin_run(session, repository, _read_cause(delivery), now))
    run = _find_run(session, repository, delivery)
    if run is None:  # a button was pressed of a commit that nothing is known of
        return DeliveryAnswer()
    cause = repeat_cause(session, run, "manual", delivery.delivery, delivery.actor)
    return _answer_with(begin_run(session, repository, cause, now))


def _answer_with(run: Run) -> DeliveryAnswer:
    return DeliveryAnswer(run.id, run.status == "pending")


def _read_cause(delivery: Delivery) -> RunCause:
    """What begins a run for a push."""
    return RunCause(
        "webhook",
        delivery.delivery,
        delivery.branch,
        delivery.sha,
        base=delivery.base,
        before=delivery.before,
        pull_request=delivery.pull_request,
        is_fork=delivery.is_fork,
        actor=delivery.actor,
        subject=delivery.message.partition("\n")[0][:_LONGEST_SUBJECT],
    )


def _find_run(session: Session, repository: Repository, delivery: Delivery) -> Run | None:
    """The run whose button was pressed: what is in its delivery besides is not believed."""
    run = session.get(Run, delivery.run)
    return run if run is not None and run.repository_id == repository.id else None


def _cancel(session: Session, repository: Repository, delivery: Delivery, now: datetime) -> tuple[str, ...]:
    """Cancel what is unfinished of a closed pull request or a deleted branch.

    Deliveries come out of order: a run of another commit than it had at its end belongs to what came after, and so
    does one that the pull request has got since, such as when it was opened again.
    """
    runs = select(Run).where(
        Run.repository_id == repository.id,
        Run.pull_request == delivery.pull_request,
        Run.status.in_(UNFINISHED),
    )
    if not delivery.pull_request:
        runs = runs.where(Run.branch == delivery.branch, Run.is_fork.is_(False))
    if sha := delivery.sha or delivery.before:
        runs = runs.where(Run.sha == sha)
    what = f"pull request {delivery.pull_request} was closed" if delivery.pull_request else "the branch was deleted"
    unfinished = session.scalars(runs.order_by(Run.number)).all()
    cancelled = [run.id for run in unfinished if not _was_told_of_since(session, run, delivery)]
    for run_id in cancelled:
        cancel_run(session, run_id, delivery.actor or repository.forge, now, what)
    return tuple(cancelled)


def _was_told_of_since(session: Session, run: Run, delivery: Delivery) -> bool:
    """Whether something that happened no earlier than a delivery has begun or joined a run."""
    if not delivery.happened:
        return False
    triggers = select(Trigger.delivery).where(
        Trigger.repository_id == run.repository_id, (Trigger.id == run.trigger_id) | (Trigger.joined == run.id)
    )
    newest = session.scalars(triggers.order_by(Trigger.id.desc()).limit(_MOST_TOLD)).all()
    times = read_times(session, run.repository_id, newest)
    return any(time >= delivery.happened for time in times)


def _approve(session: Session, repository: Repository, delivery: Delivery, base_url: str, now: datetime) -> int | None:
    """The approval by whoever pressed the button; none, and a comment that says why, where it cannot be."""
    run = _find_run(session, repository, delivery)
    if run is None:
        return None
    person = find_linked_person(session, name_provider(repository.forge, repository.forge_url), delivery.actor_id)
    digest = digest_regenerated(session, run.id)
    if person is None:
        reason = "the service knows nobody who signs in as you: sign in there, then ask for the role of an approver"
    elif not may(session, person, repository, "approver"):
        reason = "you need the role of an approver here, which an administrator of the repository can give"
    elif len(delivery.approves) != DIGEST_LENGTH or not digest.startswith(delivery.approves):
        reason = "the regenerated files are no longer those that were shown"
    else:
        try:
            return approve(session, run.id, person, digest, now).id
        except ApprovalRefused as error:
            reason = str(error)
    _queue_refusal(session, run, delivery, reason, base_url, now)
    return None


def _queue_refusal(session: Session, run: Run, delivery: Delivery, reason: str, base_url: str, now: datetime) -> None:
    """Queue the comment to whoever pressed the button; on the commit where there is no pull request."""
    link = f"[run {run.number}]({run_address(base_url, run.id)})"
    who = f"@{delivery.actor}" if delivery.actor.replace("-", "").isalnum() else "Somebody"
    text = f"{who} pressed *Approve* for {link}. Nothing was approved: {markdown.escape(one_line(reason, 400))}."
    subject = f"refusal {run.id} {one_line(delivery.actor, 100)}"
    content = {"number": run.pull_request, "sha": run.sha, "body": text}
    queue_post(session, run.repository_id, "comment", subject, f"{subject} {delivery.delivery}"[:300], content, now)
