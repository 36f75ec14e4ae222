"""What a visitor is offered on the page of a run: to approve its regenerated files."""

from __future__ import annotations

from dataclasses import dataclass

from patchgen_service.records.approvals import RegeneratedFile, digest_regenerated, find_refusal, regenerated_files
from patchgen_service.views.run import RunDetail
from patchgen_service.web.visits import Visit


@dataclass(frozen=True)
class Offer:
    """Regenerated files that can be approved; ``can`` is whether by this visitor now, and ``sentence`` says more."""

    files: tuple[RegeneratedFile, ...]
    digest: str
    can: bool
    sentence: str


def make_offer(visit: Visit, detail: RunDetail) -> Offer | None:
    """What can be approved of a run; None where there is nothing, or it was approved."""
    run = detail.line
    files = regenerated_files(visit.session, run.id)
    if not files or run.is_unfinished or any(approval.state != "refused" for approval in detail.approvals):
        return None
    digest = digest_regenerated(visit.session, run.id)
    if reason := find_refusal(visit.session, run.id, digest):
        return Offer(files, digest, False, f"These files cannot be approved: {reason}.")
    if not visit.visitor.may(run.repository_id, "approver"):
        return Offer(files, digest, False, "Somebody who may approve in this repository must sign in to do that.")
    if detail.is_fork:
        return Offer(files, digest, True, "Nothing is written to the fork: its author gets a patch.")
    return Offer(
        files, digest, True, f"What is approved is committed to '{run.branch}', onto {run.sha[:10]} and nothing else."
    )
