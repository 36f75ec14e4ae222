"""What the API takes and gives, beside the values that the views give."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import BaseModel, Field, StringConstraints

Text = Annotated[str, StringConstraints(max_length=2000, pattern=r"^[^\x00]*$")]
"""A text that every database can hold."""
Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Branch = Annotated[str, StringConstraints(min_length=1, max_length=250, pattern=r"^[^\x00-\x20\x7f]+$")]
RepositoryId = Annotated[int, Path(ge=1, le=2**31 - 1, description="number of a repository")]
ResultId = Annotated[int, Path(ge=1, le=2**31 - 1, description="number of a result")]
RunId = Annotated[str, Path(pattern=r"^[0-9a-z-]{1,40}$", description="id of a run")]
Limit = Annotated[int, Query(ge=1, le=200, description="how many at most")]
Offset = Annotated[int, Query(ge=0, le=10**6, description="how many to leave out")]


class Problem(BaseModel):
    """Why a call was not carried out."""

    detail: str


class Invalid(Problem):
    """What of a call is not as it must be."""

    errors: list[str] = []


@dataclass(frozen=True)
class RepositoryValue:
    """A repository."""

    id: int
    name: str
    url: str
    forge: str
    default_branch: str
    branches: list[str]
    projects: list[str]
    is_active: bool
    is_public: bool


class NewRepository(BaseModel):
    """A repository to be added."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
    url: Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=r"^[^\x00-\x20\x7f]+$")]
    forge: Literal["none", "github", "gitlab", "forgejo"] = "none"
    default_branch: Branch = "main"
    branches: list[Branch] = Field(default=[], max_length=50, description="patterns; none is the default branch alone")
    projects: list[Text] = Field(default=["."], max_length=50)
    constraints: Text = Field("", description="path of its constraints file")
    extras: list[Text] = Field(default=[], max_length=50, description="more requirements of its environment")
    checks: list[Text] = Field(default=[], max_length=50, description="none is all of them")
    owners: dict[Text, Text] = Field(default={}, max_length=200, description="who is told, by folder")
    poll_seconds: int = Field(0, ge=0, le=10**6)
    schedule: Annotated[Text, StringConstraints(max_length=100)] = Field("", description="a cron expression")
    is_public: bool = False


class NewRun(BaseModel):
    """A run to be begun. ``push``: whoever begins it hands its results in."""

    branch: Branch
    sha: Sha
    push: bool = False
    base: Annotated[str, StringConstraints(max_length=250, pattern=r"^[^\x00-\x20\x7f]*$")] = ""
    pull_request: int = Field(default=0, ge=0, le=2**31 - 1)
    subject: Text = ""
    author: Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00]*$")] = ""
    delivery: Annotated[str, StringConstraints(max_length=150, pattern=r"^[^\x00]*$")] = Field(
        default="", description="the same when the same thing is told again, such as the number of the CI job"
    )


class NamedRun(NewRun):
    """A run to be begun in a repository that is named."""

    repository: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]


@dataclass(frozen=True)
class BegunRun:
    """A run that was begun, or was there already.

    ``token`` can hand in its results until it ends, and nothing else; empty where the service carries the run out.
    """

    id: str
    number: int
    status: str
    address: str
    token: str


class EnvironmentValue(BaseModel):
    """Where a run runs."""

    python: Annotated[str, StringConstraints(max_length=100, pattern=r"^[^\x00]*$")] = ""
    device: Annotated[str, StringConstraints(max_length=100, pattern=r"^[^\x00]*$")] = "cpu"
    packages: dict[Text, Text] = Field(default={}, max_length=5000)


class PushedResults(BaseModel):
    """Results of a run, as ``patchgen gate --stream`` writes them."""

    project: Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00]*$")] = "."
    items: int | None = Field(default=None, ge=0, le=10**6, description="how many there will be of the project")
    environment: EnvironmentValue | None = None
    results: list[dict[str, Any]] = Field(default=[], max_length=2000)


@dataclass(frozen=True)
class Accepted:
    """How many results were new, and how the run stands."""

    new: int
    status: str


class PushedFile(BaseModel):
    """A file of a run; ``content`` is in base 64."""

    kind: Literal["generated", "removed", "report", "log", "picture"]
    name: Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$")]
    content: Annotated[str, StringConstraints(max_length=20_000_000, pattern=r"^[A-Za-z0-9+/=\s]*$")] = ""


@dataclass(frozen=True)
class StoredFile:
    """A file that was stored."""

    digest: str


class PushedEnd(BaseModel):
    """That all results are handed in, or why there are no more."""

    status: Literal["finished", "infrastructure_error", "timed_out"] = "finished"
    message: Text = ""


class NewApproval(BaseModel):
    """The approval of a run's files: ``digest`` is that which the run shows."""

    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class ApprovalValue:
    """An approval."""

    id: int
    run_id: str
    digest: str
    state: str
    sha: str
    message: str
    created: datetime
