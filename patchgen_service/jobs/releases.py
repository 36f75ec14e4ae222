"""The release watch: what the package index has of transformers, and runs with what is new there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import httpx
from packaging.version import InvalidVersion, Version
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from patchgen_service.database.tables import Release, Repository
from patchgen_service.git.errors import GitError
from patchgen_service.jobs.branches import begin_here, head_cause
from patchgen_service.jobs.context import LOG, JobContext
from patchgen_service.records.machines import ReleaseFacts, note_releases

PACKAGE = "transformers"
_TIMEOUT = 30.0
_LARGEST = 64 << 20


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
    times = [datetime.fromisoformat(file["upload_time_iso_8601"].replace("Z", "+00:00")) for file in files]
    return ReleaseFacts(text, version.is_prerelease, all(file.get("yanked") for file in files), min(times))


def watch_releases(context: JobContext) -> list[str]:
    """Begin a run of each repository's default branch with each release that is new; returns their ids.

    What the index has when it is asked for the first time is remembered and is not new. A release that was withdrawn
    is not run with. An IndexProblem where the index cannot be asked; it is asked again later.
    """
    facts = read_releases(context.settings.index_url)

    def note(session: Session) -> tuple[list[str], list[Repository]]:
        is_first = not session.scalar(select(func.count()).select_from(Release))
        fresh = [
            release.version for release in note_releases(session, facts, context.clock()) if not release.is_yanked
        ]
        repositories = session.scalars(select(Repository).where(Repository.is_active).order_by(Repository.id)).all()
        return ([] if is_first else fresh), list(repositories)

    versions, repositories = context.change(note)
    return list(_begin_runs(context, versions, repositories))


def _begin_runs(context: JobContext, versions: list[str], repositories: list[Repository]) -> Iterator[str]:
    for repository in repositories if versions else []:
        for version in versions:
            try:
                cause = head_cause(context, repository, "release", f"release-{PACKAGE}-{version}", version)
            except GitError as error:
                LOG.warning("no run of %s with %s %s: %s", repository.name, PACKAGE, version, error)
                continue
            yield begin_here(context, repository.id, cause)
