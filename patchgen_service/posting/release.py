"""The pull request for a release of transformers: what merges cleanly, and the rest by its cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from packaging.version import InvalidVersion, Version

from patchgen_core.report import markdown
from patchgen_core.report.words import quantity
from patchgen_service.forges.client import ForgeClient, PullRequest
from patchgen_service.git.writing import commit_files, push_commit
from patchgen_service.posting.approving import Workshop
from patchgen_service.posting.words import one_line

RELEASE_TRAILER = "Patchgen-Release"
_BRANCH = "patchgen/transformers-"
_MOST_CONFIGS, _MOST_CAUSES = 20, 100

ProposalState = Literal["open", "declined", "on main", "nothing"]
"""``declined``: people closed the pull request without merging it. ``nothing``: nothing merges cleanly."""


@dataclass(frozen=True)
class CauseGroup:
    """Configs that do not merge for one and the same reason."""

    cause: str
    configs: tuple[str, ...]


@dataclass(frozen=True)
class ReleaseWork:
    """What a release of transformers asks of a repository.

    Attributes:
        sha: the commit that it asks this of.
        files: the files that merged cleanly, by path; None removes one.
        rest: what did not merge.
    """

    version: str
    sha: str
    files: Mapping[str, bytes | None]
    rest: tuple[CauseGroup, ...]


@dataclass(frozen=True)
class Proposal:
    """What became of the pull request for a release; ``url`` is empty where there is none."""

    state: ProposalState
    url: str = ""


def propose_release(workshop: Workshop, client: ForgeClient, work: ReleaseWork, base: str, now: datetime) -> Proposal:
    """Open the pull request for a release, or bring the open one up to date; close it when nothing is left for it.

    Its branch is made anew from the commit that the work is of, unless somebody else has committed to it: then it is
    left alone, and only the text follows. One that people closed stays closed. Those of older releases are closed.
    ``now`` stands in the commit.
    """
    branch = f"{_BRANCH}{work.version}"
    workshop.mirror.fetch()
    earlier = client.find_pull_request(branch, base)
    if not work.files:
        state: ProposalState = "nothing" if work.rest else "on main"
        if earlier is not None and earlier.is_open:
            client.close_pull_request(earlier.number, _closing_body(work, base))
        return Proposal(state, earlier.url if earlier is not None else "")
    if earlier is not None and not earlier.is_open and not earlier.is_merged:
        return Proposal("declined", earlier.url)
    _push(workshop, work, branch, now)
    request = client.open_pull_request(branch, base, _title(work), release_body(work))
    for older in _find_older(workshop, client, work, base):
        client.close_pull_request(older.number, f"transformers {markdown.escape(work.version)} is out: {request.url}")
    return Proposal("open", request.url)


def release_body(work: ReleaseWork) -> str:
    """The text of the pull request."""
    lines = [f"What merges cleanly into transformers {markdown.escape(work.version)}: "]
    lines[0] += f"{quantity(len(work.files), 'file')}."
    return "\n".join([*lines, *_list_rest(work)])


def _closing_body(work: ReleaseWork, base: str) -> str:
    line = (
        f"Everything that merges cleanly into transformers {markdown.escape(work.version)} is on "
        f"{markdown.code(base)}."
    )
    return "\n".join([line, *_list_rest(work)])


def _list_rest(work: ReleaseWork) -> Iterator[str]:
    if work.rest:
        yield from ("", "**What is left for people, by cause**", "")
    groups = _largest_first(work.rest)
    for group in groups[:_MOST_CAUSES]:
        names = ", ".join(markdown.code(one_line(config, 120)) for config in group.configs[:_MOST_CONFIGS])
        more = f" and {len(group.configs) - _MOST_CONFIGS} more" if len(group.configs) > _MOST_CONFIGS else ""
        yield f"- {markdown.escape(one_line(group.cause, 300))}: {names}{more}"
    if len(groups) > _MOST_CAUSES:
        yield f"- … and {len(groups) - _MOST_CAUSES} more causes"


def _push(workshop: Workshop, work: ReleaseWork, branch: str, now: datetime) -> None:
    mirror = workshop.mirror
    current = mirror.read_heads().get(branch, "")
    if current and not _is_own_and_stale(workshop, work, current):
        return
    message = f"{_title(work)}\n\n{RELEASE_TRAILER}: {one_line(work.version)}\n"
    sha = commit_files(mirror, work.sha, work.files, message, workshop.committer, workshop.committer, now)
    push_commit(mirror, sha, branch, current)


def _is_own_and_stale(workshop: Workshop, work: ReleaseWork, current: str) -> bool:
    """Whether the branch holds a commit of the service alone, which is not what would be made now."""
    mirror = workshop.mirror
    commit = mirror.read_commit(current)
    if commit.read_trailer(RELEASE_TRAILER) != work.version or len(commit.parents) != 1:
        return False
    if not mirror.is_ancestor(commit.parents[0], work.sha):
        return False
    if commit.parents != (work.sha,):
        return True
    return any(mirror.read_file(current, path) != content for path, content in work.files.items()) or bool(
        set(mirror.list_changes(work.sha, current)) - set(work.files)
    )


def _find_older(workshop: Workshop, client: ForgeClient, work: ReleaseWork, base: str) -> Iterator[PullRequest]:
    """The open pull requests for releases before this one, unless this is no more than a candidate."""
    newest = Version(work.version)
    for branch in workshop.mirror.read_heads() if not newest.is_prerelease else ():
        try:
            is_older = branch.startswith(_BRANCH) and Version(branch.removeprefix(_BRANCH)) < newest
        except InvalidVersion:
            continue
        request = client.find_pull_request(branch, base) if is_older else None
        if request is not None and request.is_open:
            yield request


def _title(work: ReleaseWork) -> str:
    return f"Move {quantity(len(work.files), 'file')} to transformers {one_line(work.version, 40)}"


def _largest_first(groups: Sequence[CauseGroup]) -> Sequence[CauseGroup]:
    return sorted(groups, key=lambda group: -len(group.configs))
