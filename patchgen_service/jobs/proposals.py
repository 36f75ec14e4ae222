"""The weekly pull request for a release of transformers: what it takes is worked out, and told to the forge."""

from __future__ import annotations

import threading

import httpx
from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_service.database.tables import Repository
from patchgen_service.forges.api import ForgeError
from patchgen_service.git.errors import GitError
from patchgen_service.git.writing import Author
from patchgen_service.jobs.context import LOG, JobContext
from patchgen_service.jobs.run_job import make_workplace
from patchgen_service.posting.approving import Workshop
from patchgen_service.posting.release import CauseGroup, ReleaseWork, propose_release
from patchgen_service.records.audit import SERVICE
from patchgen_service.records.proposals import (
    ProposalNote,
    find_newest_release,
    is_due,
    mark_done,
    note_proposal,
    read_wishes,
)
from patchgen_service.running.order import RunOrder
from patchgen_service.running.upgrade import UpgradeFailed, upgrade_repository
from patchgen_service.schedules import is_schedule, last_time

COMMITTER = Author("patchgen", "patchgen@localhost")


class Proposer:
    """Looks after the pull requests for releases, of one repository or of all whose time has come."""

    def __init__(self, context: JobContext, http: httpx.Client) -> None:
        self._context, self._http = context, http
        self._lock = threading.Lock()

    def propose_due(self) -> None:
        """Propose the newest release to each repository whose weekly time has come since it was done.

        A repository that cannot be reached is tried again the next time this is called.
        """
        context, schedule = self._context, self._context.settings.release_requests
        if not is_schedule(schedule):
            if schedule:
                LOG.warning("release_requests is not a cron expression: '%s'", schedule)
            return
        last = last_time(schedule, context.clock())
        active = select(Repository).where(Repository.is_active).order_by(Repository.id)
        for repository in context.change(lambda session: session.scalars(active).all()):
            name = f"release request {repository.id}"
            due = context.change(lambda session, name=name: is_due(session, name, last, context.clock()))  # type: ignore[misc]
            if not due or not context.access.can_post(repository):
                continue
            try:
                self.propose(repository.id)
            except (GitError, ForgeError) as error:
                LOG.warning("the pull request of %s is put off: %s", repository.name, error)
                continue
            context.change(lambda session, name=name: mark_done(session, name, context.clock()))  # type: ignore[misc]

    def propose_wishes(self) -> None:
        """Propose what somebody asked for while this process was about to start or to end."""
        if self._lock.locked():  # what is under way may be that
            return
        context = self._context
        for wish in context.change(lambda session: read_wishes(session, context.clock())):
            self.propose(*wish)

    def propose(self, repository_id: int, version: str = "", actor: str = SERVICE) -> None:
        """Propose a release to a repository, the newest where none is named, and note what became of it.

        Raises:
            GitError, ForgeError: it is noted, and may go better another time.
        """
        context = self._context
        repository = context.change(lambda session: session.get(Repository, repository_id))
        version = version or context.change(find_newest_release)
        if repository is None or not repository.is_active or not version:
            return
        is_retried = False
        try:
            with self._lock:  # two would share a worktree
                note = self._propose(repository, version)
        except (GitError, ForgeError, UpgradeFailed) as error:
            is_retried = (isinstance(error, GitError) and error.is_retried) or (
                isinstance(error, ForgeError) and not error.is_final
            )
            note = ProposalNote(version, "failed", context.clock(), message=str(error)[:1000])
            problem = error
        context.change(lambda session: self._note(session, repository_id, actor, note))
        if is_retried:
            raise problem

    def _note(self, session: Session, repository_id: int, actor: str, note: ProposalNote) -> None:
        repository = session.get(Repository, repository_id)
        if repository is not None:
            note_proposal(session, repository, actor, note)

    def _propose(self, repository: Repository, version: str) -> ProposalNote:
        context = self._context
        client = context.access.open_client(self._http, repository)
        if client is None:
            raise ForgeError("refused", "the repository is on no forge, or the service has no token for it")
        mirror = context.open_mirror(repository)
        mirror.fetch()
        sha = mirror.resolve(repository.default_branch)
        upgrade = upgrade_repository(
            make_upgrade_order(repository, sha, version), mirror, make_workplace(context.settings, context)
        )
        rest = tuple(CauseGroup(cause, configs) for cause, configs in upgrade.rest.items())
        work = ReleaseWork(version, sha, upgrade.files, rest)
        workshop = Workshop(mirror, client, context.store, COMMITTER, context.settings.base_url)
        now = context.clock()
        proposal = propose_release(workshop, client, work, repository.default_branch, now)
        return ProposalNote(version, proposal.state, now, proposal.url, "", len(upgrade.files), len(rest))


def make_upgrade_order(repository: Repository, sha: str, version: str) -> RunOrder:
    """What is to be upgraded to a release."""
    return RunOrder(
        f"upgrade-{repository.id}-{version}",
        repository.name,
        repository.url,
        sha,
        projects=tuple(repository.projects) or (".",),
        python=repository.python,
        constraints=repository.constraints,
        extras=tuple(repository.extras),
        transformers=version,
        is_trusted=repository.is_trusted,
    )
