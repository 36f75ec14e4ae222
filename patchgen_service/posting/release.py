"""The pull request for a release of transformers: what merges cleanly, and the rest by its cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from patchgen_core.report import markdown
from patchgen_core.report.words import quantity
from patchgen_service.forges.client import PullRequest
from patchgen_service.git.writing import commit_files, push_commit
from patchgen_service.posting.approving import Workshop
from patchgen_service.posting.words import one_line

RELEASE_TRAILER = "Patchgen-Release"
_MOST_CONFIGS = 20


@dataclass(frozen=True)
class CauseGroup:
    """Configs that do not merge for one and the same reason."""

    cause: str
    configs: tuple[str, ...]


@dataclass(frozen=True)
class ReleaseWork:
    """What a release of transformers asks of a repository.

    Attributes:
        files: the files that merged cleanly, by path; None removes one.
        rest: what did not merge.
    """

    version: str
    files: Mapping[str, bytes | None]
    rest: tuple[CauseGroup, ...]


def propose_release(workshop: Workshop, work: ReleaseWork, base: str, now: datetime) -> PullRequest | None:
    """Open the pull request for a release, or bring the open one up to date; none where nothing merged cleanly.

    Its branch is made anew from where ``base`` is, unless somebody else has committed to it: then it is left alone,
    and only the text follows. ``now`` stands in the commit.
    """
    if not work.files or workshop.client is None:
        return None
    mirror, branch = workshop.mirror, f"patchgen/transformers-{work.version}"
    mirror.fetch()
    head, current = mirror.resolve(base), mirror.read_heads().get(branch, "")
    if not current or _is_own_and_stale(workshop, work, current, head):
        message = f"{_title(work)}\n\n{RELEASE_TRAILER}: {one_line(work.version)}\n"
        sha = commit_files(mirror, head, work.files, message, workshop.committer, workshop.committer, now)
        push_commit(mirror, sha, branch, current)
    return workshop.client.open_pull_request(branch, base, _title(work), release_body(work))


def release_body(work: ReleaseWork) -> str:
    """The text of the pull request."""
    lines = [f"What merges cleanly into transformers {markdown.escape(work.version)}: "]
    lines[0] += f"{quantity(len(work.files), 'file')}."
    if work.rest:
        lines += ["", "**What is left for people, by cause**", ""]
    for group in _largest_first(work.rest):
        names = ", ".join(markdown.code(one_line(config, 120)) for config in group.configs[:_MOST_CONFIGS])
        more = f" and {len(group.configs) - _MOST_CONFIGS} more" if len(group.configs) > _MOST_CONFIGS else ""
        lines.append(f"- {markdown.escape(one_line(group.cause, 300))}: {names}{more}")
    return "\n".join(lines)


def _is_own_and_stale(workshop: Workshop, work: ReleaseWork, current: str, head: str) -> bool:
    """Whether the branch holds a commit of the service alone, which is not what would be made now."""
    mirror = workshop.mirror
    commit = mirror.read_commit(current)
    if commit.read_trailer(RELEASE_TRAILER) != work.version or len(commit.parents) != 1:
        return False
    if not mirror.is_ancestor(commit.parents[0], head):
        return False
    if commit.parents != (head,):
        return True
    return any(mirror.read_file(current, path) != content for path, content in work.files.items()) or bool(
        set(mirror.list_changes(head, current)) - set(work.files)
    )


def _title(work: ReleaseWork) -> str:
    return f"Move {quantity(len(work.files), 'file')} to transformers {one_line(work.version, 40)}"


def _largest_first(groups: Sequence[CauseGroup]) -> Sequence[CauseGroup]:
    return sorted(groups, key=lambda group: -len(group.configs))
