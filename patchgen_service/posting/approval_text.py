"""What became of approvals, as Markdown, with the patch that a fork's author applies."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.report import markdown
from patchgen_service.posting.approving import PATCH_NAME
from patchgen_service.posting.words import one_line, run_address
from patchgen_service.views.run import ApprovalLine, RunDetail

_LONGEST_PATCH = 30_000
"""Characters of a patch that a comment holds; a longer one is at its address alone."""


def describe_approvals(detail: RunDetail, base_url: str, patch: str) -> list[str]:
    """Lines on each approval of a run, the newest first.

    Args:
        patch: the text of the patch that was made of it; empty for none.
    """
    lines: list[str] = []
    for approval in detail.approvals:
        lines += [_describe(approval), ""]
        if approval.state == "patch":
            lines += [*_hand_out(detail, base_url, patch), ""]
    return lines


def _describe(approval: ApprovalLine) -> str:
    who = f"Approved by {markdown.escape(one_line(approval.person))}"
    message = markdown.escape(one_line(approval.message, 300))
    if approval.state == "committed":
        return f"{who}: committed as {markdown.code(approval.sha[:10])}."
    if approval.state == "proposed":
        return f"{who}. The branch takes no push from the service, so a pull request carries it: {message}"
    if approval.state == "patch":
        return f"{who}: {message}. Its author applies this patch with `git am`."
    if approval.state == "refused":
        return f"{who}, but nothing was committed: {message}."
    return f"{who}; it is being carried out."


def _hand_out(detail: RunDetail, base_url: str, patch: str) -> Iterator[str]:
    file = next((file for file in detail.files if file.kind == "diff" and file.name == PATCH_NAME), None)
    if file is not None:
        address = f"{run_address(base_url, detail.line.id)}/files/{file.digest}?name={PATCH_NAME}"
        yield f"[{PATCH_NAME}]({address})"
    if patch and len(patch) <= _LONGEST_PATCH:
        yield ""
        yield from markdown.details(f"The patch, for git am {PATCH_NAME}", markdown.fence(patch, "diff"))
