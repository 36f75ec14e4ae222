"""The release watch: what the package index has of transformers, and runs with what is new there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from packaging.version import InvalidVersion, Version
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from patchgen_service.database.tables import Release, Repository, Trigger
from patchgen_service.git.errors import GitError
from patchgen_service.jobs.branches import begin_here, head_cause
from patchgen_service.jobs.context import LOG, JobContext
from patchgen_service.records.machines import ReleaseFacts, note_releases
from patchgen_service.running.upstream_changes import fetch_history

PACKAGE = "transformers"
_TIMEOUT = 30.0
_LARGEST = 64 << 20
_BEGIN_WITHIN = timedelta(days=7)
"""For so long runs with a release are begun that could not be before."""


class IndexProblem(Exception):
    """The package index cannot be asked, or gives no sensible answer."""


def read_releases(index_url: str, package: str = PACKAGE) -> list[ReleaseFacts]:
    """The releases of a package that have files, in the order of their versions, from the index's JSON API."""
    address = f"{index_url.rstrip('/')}/pypi/{package}/json"
    try:
        with httpx.stream("GET", address, timeout=_TIMEOUT, follow_redirects=True) as response:
            response.raise_for_status()
            content = b""
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > _LARGEST:
                    raise IndexProblem(f"{address} answers with more than {_LARGEST >> 20} MiB")
            releases = httpx.Response(200, content=content).json()["releases"]
            facts = [_read_release(text, files) for text, files in releases.items() if files]
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise IndexProblem(f"{address} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IndexProblem(f"{address} is no description of a package ({type(error).__name__})") from error
    return sorted(filter(None, facts), key=lambda release: Version(release.version))


def _read_release(text: str, files: list[Mapping[str, Any]]) -> ReleaseFacts | None:
    try:
        version = Version(text)
    except InvalidVersion:
        return None
    times = [_read_time(file["upload_time_iso_8601"]) for file in files]
    return ReleaseFacts(text, version.is_prerelease, all(file.get("yanked") for file in files), min(times))


def _read_time(text: str) -> datetime:
    """A moment in ISO 8601, with any number of decimals: Python 3.10 reads three or six of them alone."""
    padded = re.sub(r"\.(\d{1,6})\d*", lambda match: f".{match[1]:0<6}", text)
    return datetime.fromisoformat(padded.replace("Z", "+00:00"))


def watch_releases(context: JobContext) -> list[str]:
    """Begin a run of each repository's default branch with each release that is new to it; returns their ids.

    What the index has when it is asked for the first time is remembered and is not new, nor is what came before the
    repository was added, even where the index tells of it later. A release that was withdrawn is not run with. What
    could not be begun, because the repository cannot be reached, is begun by a later call within a week. An
    IndexProblem where the index cannot be asked.
    """
    facts = read_releases(context.settings.index_url)

    def note(session: Session) -> list[tuple[Repository, list[str]]]:
        note_releases(session, facts, context.clock())
        active = session.scalars(select(Repository).where(Repository.is_active).order_by(Repository.id)).all()
        return [(repository, _due_versions(session, repository, context.clock())) for repository in active]

    due = context.change(note)
    if any(versions for _, versions in due):
        _fetch_history(context)
    return [run for repository, versions in due for run in _begin_runs(context, repository, versions)]


def _fetch_history(context: JobContext) -> None:
    """Have the clone of transformers know the new releases, so that runs with them name upstream's pull requests."""
    folder = Path(context.settings.history)
    if context.settings.history and folder.is_dir():
        try:
            fetch_history(folder)
        except GitError as error:
            LOG.warning("the clone %s of %s gets no new tags: %s", folder, PACKAGE, error)


def _due_versions(session: Session, repository: Repository, now: datetime) -> list[str]:
    """The releases that a repository has yet to be run with, the oldest first."""
    first = session.scalar(select(func.min(Release.seen))) or now
    since = max(repository.created, now - _BEGIN_WITHIN)
    is_recent = Release.uploaded.is_(None) | (Release.uploaded >= max(first, repository.created) - _BEGIN_WITHIN)
    new = select(Release.version).where(Release.seen > first, Release.seen >= since, is_recent, ~Release.is_yanked)
    versions = {_delivery(version): version for version in session.scalars(new)}
    begun = select(Trigger.delivery).where(
        Trigger.repository_id == repository.id, Trigger.kind == "release", Trigger.received >= since - _BEGIN_WITHIN
    )
    for delivery in session.scalars(begun):
        versions.pop(delivery, None)
    return sorted(versions.values(), key=Version)


def _delivery(version: str) -> str:
    return f"release-{PACKAGE}-{version}"


def _begin_runs(context: JobContext, repository: Repository, versions: list[str]) -> Iterator[str]:
    if not versions:
        return
    try:
        cause = head_cause(context, repository, "release", "")
    except GitError as error:
        LOG.warning("no run of %s with %s %s: %s", repository.name, PACKAGE, ", ".join(versions), error)
        return
    for version in versions:
        yield begin_here(context, repository.id, replace(cause, delivery=_delivery(version), transformers=version))
