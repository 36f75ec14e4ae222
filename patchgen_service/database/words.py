"""The words that columns hold: the states of runs, posts and approvals, and what begins a run."""

from __future__ import annotations

from typing import Literal

RunStatus = Literal[
    "pending",
    "running",
    "passed",
    "drifted",
    "broken",
    "flaky",
    "infrastructure_error",
    "cancelled",
    "superseded",
    "timed_out",
]
"""What a run is, or came to. ``drifted``: only drift is red. ``broken``: another check is red. ``flaky``: the same
commit in the same environment gave different results. ``infrastructure_error``: the gate itself could not be run."""

UNFINISHED: tuple[RunStatus, ...] = ("pending", "running")
COMPLETE: tuple[RunStatus, ...] = ("passed", "drifted", "broken", "flaky")
"""The ends of runs of which every item came to something: with these, later runs can be compared."""
RED: tuple[RunStatus, ...] = ("drifted", "broken", "timed_out", "infrastructure_error")

TriggerKind = Literal["webhook", "poll", "schedule", "release", "manual", "api", "push", "approval"]
"""What a run was begun by. ``push``: a CI job hands in its own results; ``approval``: files were committed here."""

Forge = Literal["github", "gitlab", "forgejo", "none"]
"""Where a repository lives. ``none``: git alone, which is polled and gets no posts. Gitea speaks as Forgejo does."""

Role = Literal["viewer", "approver", "admin"]
"""What a person may do in a repository; each may do what those before it may."""
ROLES: tuple[Role, ...] = ("viewer", "approver", "admin")

ApprovalState = Literal["pending", "committed", "proposed", "patch", "refused"]
"""What became of an approval. ``committed`` to the branch, ``proposed`` as a pull request, a ``patch`` to be applied
by hand, or ``refused`` because the branch had moved or the files are no longer those that were shown."""

PostKind = Literal["status", "check_run", "comment", "pull_request", "webhook", "mail"]
PostState = Literal["waiting", "sending", "sent", "failed", "obsolete"]
"""``sending``: a process has taken it. ``failed``: given up after the last attempt. ``obsolete``: a newer post of the
same subject replaced it."""

ArtifactKind = Literal["result", "diff", "generated", "removed", "report", "log", "picture"]
"""What a stored file is; how long it is kept goes by that. ``generated``: a file of the repository as it should be, by
its path; ``removed``: one that should not be there."""

Change = Literal["new", "known", "fixed"]
"""What a result is beside the baseline. ``new``: red, and was not. ``known``: red, and was already. ``fixed``: green,
and was red."""
