"""What webhooks ask for: runs of new commits, runs once more, runs that nobody needs any longer, and approvals."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_core.report import markdown
from patchgen_service.accounts.people import find_linked_person, name_provider
from patchgen_service.accounts.roles import may
from patchgen_service.database.tables import Repository, Run
from patchgen_service.database.words import UNFINISHED
from patchgen_service.forges.delivery import Delivery
from patchgen_service.forges.github.payloads import DIGEST_LENGTH
from patchgen_service.posting.words import one_line, run_address
from patchgen_service.records.approvals import ApprovalRefused, approve, digest_regenerated
from patchgen_service.records.posts import queue_post
from patchgen_service.records.runs import RunCause, begin_run, cancel_run, repeat_cause

_LONGEST_SUBJECT = 300


@dataclass(frozen=True)
class DeliveryAnswer:
    """What came of a delivery: the ``run`` that it began or joined, its approval, and the runs that it cancelled."""

    run: str = ""
    approval: int | None = None
    cancelled: tuple[str, ...] = ()


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
    cause = _cause(session, repository, delivery)
    return DeliveryAnswer(begin_run(session, repository, cause, now).id) if cause is not None else DeliveryAnswer()


def _cause(session: Session, repository: Repository, delivery: Delivery) -> RunCause | None:
    """What begins a run; None where a button was pressed of a commit that nothing is known of."""
    if delivery.kind == "rerun":
        run = _find_run(session, repository, delivery)
        return repeat_cause(session, run, "manual", delivery.delivery, delivery.actor) if run is not None else None
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

    Deliveries come out of order: a run of another commit than it had at its end belongs to what came after.
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
    cancelled = [run.id for run in session.scalars(runs.order_by(Run.number)).all()]
    for run_id in cancelled:
        cancel_run(session, run_id, delivery.actor or repository.forge, now, what)
    return tuple(cancelled)


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
        reason = "that takes the role of an approver here, which whoever administers the repository can give"
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
