"""Which commit a run is of: what the CI job says, and git where there is none."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from patchgen_core.errors import PatchgenError

REPOSITORY = "PATCHGEN_REPOSITORY"
"""The variable that says what a service calls the repository; the forge's name of it by default."""
_GITHUB_EVENT = "GITHUB_EVENT_PATH"


@dataclass(frozen=True)
class JobCommit:
    """The commit of a run.

    Attributes:
        repository: what a service calls it, such as ``acme/models``.
        base: the branch that its pull request goes to; empty for none.
        delivery: the same when the same job tells again; empty where that is not known.
        project: the project's folder, from the root of the repository; ``.`` for that.
    """

    repository: str
    sha: str
    branch: str
    base: str = ""
    pull_request: int = 0
    delivery: str = ""
    project: str = "."


def describe_commit(environment: Mapping[str, str], folder: Path) -> JobCommit:
    """The commit that is checked out in a project's folder; a PatchgenError where that is not in git."""
    sha = environment.get("CI_COMMIT_SHA") or _ask_git(folder, "rev-parse", "HEAD")
    project = _ask_git(folder, "rev-parse", "--show-prefix").rstrip("/") or "."
    repository = (
        environment.get(REPOSITORY)
        or environment.get("GITHUB_REPOSITORY")
        or environment.get("CI_PROJECT_PATH")
        or _name_of(_ask_git(folder, "config", "--get", "remote.origin.url", otherwise=""))
    )
    if not repository:
        raise PatchgenError(
            "the repository has no name that a service knows", None, f"Set {REPOSITORY}, as in acme/models."
        )
    if request := _github_pull_request(environment):
        head, base = request["head"], request["base"]["ref"]
        return JobCommit(
            repository, head["sha"], head["ref"], base, int(request["number"]), _github_job(environment), project
        )
    if number := environment.get("CI_MERGE_REQUEST_IID", ""):
        branch = environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "")
        base = environment.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "")
        return JobCommit(repository, sha, branch, base, int(number), environment.get("CI_JOB_ID", ""), project)
    named = environment.get("CI_COMMIT_REF_NAME") or environment.get("GITHUB_REF_NAME")
    branch = named or _ask_git(folder, "branch", "--show-current", otherwise="") or "HEAD"
    delivery = environment.get("CI_JOB_ID") or _github_job(environment)
    return JobCommit(repository, sha, branch, delivery=delivery, project=project)


def _github_job(environment: Mapping[str, str]) -> str:
    names = ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB")
    return "-".join(filter(None, (environment.get(name, "") for name in names)))


def _github_pull_request(environment: Mapping[str, str]) -> dict[str, Any]:
    """The pull request that began a job of GitHub, Forgejo or Gitea; empty for none."""
    try:
        event = json.loads(Path(environment[_GITHUB_EVENT]).read_text(encoding="utf-8"))
        request: dict[str, Any] = event["pull_request"]
        _ = request["head"]["sha"], request["head"]["ref"], request["base"]["ref"], int(request["number"])
    except (KeyError, OSError, ValueError, TypeError):
        return {}
    return request


def _ask_git(folder: Path, *arguments: str, otherwise: str | None = None) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True)
    except OSError as error:
        raise PatchgenError(f"git cannot be run: {error.strerror}") from None
    if done.returncode and otherwise is None:
        raise PatchgenError(f"git does not say which commit this is: {done.stderr.strip()}")
    return done.stdout.strip() if not done.returncode else otherwise or ""


def _name_of(url: str) -> str:
    """The path of a repository on its forge: of ``https://host/acme/models.git`` and ``git@host:acme/models.git``."""
    path = urlsplit(url).path if "://" in url else url.partition(":")[2]
    return path.strip("/").removesuffix(".git")
