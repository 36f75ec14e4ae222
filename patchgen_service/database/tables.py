"""The tables of the service. Times are in UTC; large texts are artifacts, outside of the database."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from patchgen_service.database.base import Base as Base
from patchgen_service.database.deliveries import WebhookDelivery as WebhookDelivery
from patchgen_service.database.removals import RemovedRepository as RemovedRepository


def _key(to: str, **options: Any) -> Any:
    return mapped_column(ForeignKey(to, ondelete=options.pop("ondelete", "CASCADE")), index=True, **options)


class Repository(Base):
    """A git repository with projects that the gate runs over.

    Attributes:
        name: what pages call it, such as ``acme/models``; also its path on its forge.
        forge_url: the root of the forge, such as ``https://github.com``; empty for none.
        branches: patterns of the branches that are run, such as ``main`` and ``release/*``.
        projects: folders of the repository with a ``[tool.patchgen]``; ``.`` for its root.
        constraints: path of its constraints file, from its root; empty for none.
        extras: requirements that its environment gets beside the constraints.
        owners: who is told about a folder's configs, by folder.
        is_trusted: whether its code may run without isolation.
        webhook_secret, forge_token: encrypted; empty for none.
        poll_seconds: time between two looks for new commits; 0 for none.
        schedule: cron expression of runs in any case; empty for none.
        run_count: the number of its newest run.
    """

    __tablename__ = "repository"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(200), unique=True)
    url: Mapped[str]
    forge: Mapped[str] = mapped_column(String(20), default="none")
    forge_url: Mapped[str] = mapped_column(default="")
    default_branch: Mapped[str] = mapped_column(default="main")
    branches: Mapped[list[str]] = mapped_column(default=list)
    projects: Mapped[list[str]] = mapped_column(default=list)
    python: Mapped[str] = mapped_column(default="")
    constraints: Mapped[str] = mapped_column(default="")
    extras: Mapped[list[str]] = mapped_column(default=list)
    checks: Mapped[list[str]] = mapped_column(default=list)
    owners: Mapped[dict[str, str]] = mapped_column(default=dict)
    is_trusted: Mapped[bool] = mapped_column(default=False)
    is_active: Mapped[bool] = mapped_column(default=True)
    is_public: Mapped[bool] = mapped_column(default=False)
    webhook_secret: Mapped[str] = mapped_column(default="")
    forge_token: Mapped[str] = mapped_column(default="")
    poll_seconds: Mapped[int] = mapped_column(default=0)
    schedule: Mapped[str] = mapped_column(default="")
    run_count: Mapped[int] = mapped_column(default=0)
    created: Mapped[datetime]


class Commit(Base):
    """A commit that something was run on, or that a result is compared with."""

    __tablename__ = "commit"
    __table_args__ = (UniqueConstraint("repository_id", "sha"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    repository_id: Mapped[int] = _key("repository.id")
    sha: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(default="")
    author: Mapped[str] = mapped_column(default="")
    committed: Mapped[datetime | None]


class Trigger(Base):
    """What began a run. A delivery is handled once: its id is unique for the repository.

    Attributes:
        before: the commit that the branch was at; empty when that is not known.
        base: the branch that the commit is to be merged into; empty for a push to ``branch`` itself.
        pull_request: its number on the forge; 0 for none.
        is_fork: whether the commit comes from a fork, to which nothing is written.
        actor: who pushed, pressed or scheduled it.
        joined: the run that was there already for this commit; empty where it began one.
    """

    __tablename__ = "trigger"
    __table_args__ = (UniqueConstraint("repository_id", "delivery"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    repository_id: Mapped[int] = _key("repository.id")
    kind: Mapped[str] = mapped_column(String(20))
    delivery: Mapped[str] = mapped_column(String(200))
    branch: Mapped[str] = mapped_column(default="")
    sha: Mapped[str] = mapped_column(String(64), default="")
    before: Mapped[str] = mapped_column(String(64), default="")
    base: Mapped[str] = mapped_column(default="")
    pull_request: Mapped[int] = mapped_column(default=0)
    is_fork: Mapped[bool] = mapped_column(default=False)
    actor: Mapped[str] = mapped_column(default="")
    joined: Mapped[str] = mapped_column(String(40), default="")
    received: Mapped[datetime]


class Environment(Base):
    """Where a run ran: what was installed, on which device. ``digest`` is of all that goes into it."""

    __tablename__ = "environment"

    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    python: Mapped[str] = mapped_column(default="")
    torch: Mapped[str] = mapped_column(default="")
    transformers: Mapped[str] = mapped_column(default="")
    kernels: Mapped[dict[str, str]] = mapped_column(default=dict)
    device: Mapped[str] = mapped_column(default="cpu")
    packages: Mapped[dict[str, str]] = mapped_column(default=dict)
    created: Mapped[datetime]
    used: Mapped[datetime]


class Run(Base):
    """The gate over one commit of a repository.

    Attributes:
        id: also the id of its job.
        number: counts the runs of the repository, and is their order: clocks jump.
        sha: that of its commit.
        transformers: another release than the environment's to run with; empty for its own.
        message: why it ended as it did, in a sentence.
        token: hash of what may hand in its results, and nothing else; empty once it ended.
        baseline_id, baseline_reason: the run that its results are compared with, and why that one.
        previous_id: the nearest complete run before it, red or not: what was red there is not new here.
        superseded_by: the newer run of its branch because of which it is not carried on.
        expected: how many items it has; none until that is known. ``expected_by`` has them by project.
        heard: when a sign of life came from where it runs.
    """

    __tablename__ = "run"
    __table_args__ = (
        UniqueConstraint("repository_id", "number"),
        Index(None, "repository_id", "branch", "number"),
        Index(None, "status"),
        Index(None, "created"),
        Index(None, "superseded_by"),
    )

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    number: Mapped[int]
    repository_id: Mapped[int] = mapped_column(ForeignKey("repository.id", ondelete="CASCADE"))
    commit_id: Mapped[int] = _key("commit.id")
    trigger_id: Mapped[int] = mapped_column(ForeignKey("trigger.id", ondelete="CASCADE"), unique=True)
    environment_id: Mapped[int | None] = _key("environment.id", ondelete="SET NULL")
    sha: Mapped[str] = mapped_column(String(64))
    branch: Mapped[str] = mapped_column(default="")
    pull_request: Mapped[int] = mapped_column(default=0)
    is_fork: Mapped[bool] = mapped_column(default=False)
    transformers: Mapped[str] = mapped_column(default="")
    status: Mapped[str] = mapped_column(String(24), default="pending")
    message: Mapped[str] = mapped_column(default="")
    token: Mapped[str] = mapped_column(String(64), default="")
    baseline_id: Mapped[str | None] = _key("run.id", ondelete="SET NULL")
    baseline_reason: Mapped[str] = mapped_column(default="")
    previous_id: Mapped[str | None] = _key("run.id", ondelete="SET NULL")
    superseded_by: Mapped[str | None] = mapped_column(String(40))
    expected: Mapped[int | None]
    expected_by: Mapped[dict[str, int]] = mapped_column(default=dict)
    worker: Mapped[str] = mapped_column(default="")
    created: Mapped[datetime]
    started: Mapped[datetime | None]
    heard: Mapped[datetime | None]
    ended: Mapped[datetime | None]

    repository: Mapped[Repository] = relationship(lazy="raise")
    commit: Mapped[Commit] = relationship(lazy="raise")
    trigger: Mapped[Trigger] = relationship(lazy="raise")
    environment: Mapped[Environment | None] = relationship(lazy="raise")


class Result(Base):
    """What one item of the gate came to. Handing it in again changes nothing.

    Attributes:
        key: stands for project, path, config and item: the same in every run.
        project: folder of the project in its repository.
        config: what reports call it; ``path`` is its file, from the repository's root.
        check: the check's name; ``item`` that of the item, such as ``parity[eager]``.
        status: one of ``patchgen_core.checks.result.Status``.
        is_flaky: whether the same commit in the same environment gave another status before or after.
        is_infrastructure: whether its check could not be done, which says nothing of the config.
        change: ``new``, ``known`` or ``fixed`` beside the baseline; else empty, as for what was and is clean.
        figures: what was measured, by name.
        data, position: digest of the stored file that holds the whole result, and its place in there.
    """

    __tablename__ = "result"
    __table_args__ = (UniqueConstraint("run_id", "key"), Index(None, "key"), Index(None, "config", "run_id"))

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("run.id", ondelete="CASCADE"))
    key: Mapped[str] = mapped_column(String(64))
    project: Mapped[str] = mapped_column(default=".")
    config: Mapped[str]
    path: Mapped[str]
    line: Mapped[int] = mapped_column(default=0)
    check: Mapped[str]
    item: Mapped[str]
    status: Mapped[str] = mapped_column(String(12))
    is_flaky: Mapped[bool] = mapped_column(default=False)
    is_infrastructure: Mapped[bool] = mapped_column(default=False)
    change: Mapped[str] = mapped_column(String(8), default="")
    headline: Mapped[str] = mapped_column(default="")
    causes: Mapped[list[str]] = mapped_column(default=list)
    figures: Mapped[dict[str, float]] = mapped_column(default=dict)
    seconds: Mapped[float] = mapped_column(default=0.0)
    data: Mapped[str] = mapped_column(String(64), default="")
    position: Mapped[int] = mapped_column(default=0)
    received: Mapped[datetime]


class Artifact(Base):
    """A stored file, named by the SHA-256 of its bytes."""

    __tablename__ = "artifact"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    size: Mapped[int]
    created: Mapped[datetime]


class ArtifactUse(Base):
    """Which run keeps which stored file, under which name, as what."""

    __tablename__ = "artifact_use"
    __table_args__ = (UniqueConstraint("run_id", "kind", "name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[str] = _key("run.id")
    digest: Mapped[str] = _key("artifact.digest")
    kind: Mapped[str] = mapped_column(String(12))
    name: Mapped[str]


class Approval(Base):
    """That a person approved the regenerated files of a run, for exactly the digest that was shown."""

    __tablename__ = "approval"
    __table_args__ = (UniqueConstraint("run_id", "digest"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[str] = _key("run.id")
    person_id: Mapped[int] = _key("person.id")
    digest: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(12), default="pending")
    sha: Mapped[str] = mapped_column(String(64), default="")
    message: Mapped[str] = mapped_column(default="")
    created: Mapped[datetime]
    ended: Mapped[datetime | None]


class Post(Base):
    """Something that is to be told elsewhere: the outbox.

    Attributes:
        subject: what it is about; a newer post of the same subject makes an older, unsent one obsolete.
        key: unique; a post is made once, however often its making is repeated.
        remote: id of what the forge made of it, by which it is edited.
        attempts: how often it was tried; ``due`` is when it is tried next, or when it is given up that the process
            that is sending it will say what came of it.
    """

    __tablename__ = "post"
    __table_args__ = (Index(None, "state", "due"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    repository_id: Mapped[int] = _key("repository.id")
    run_id: Mapped[str | None] = _key("run.id", ondelete="SET NULL")
    kind: Mapped[str] = mapped_column(String(16))
    subject: Mapped[str] = mapped_column(String(300), index=True)
    key: Mapped[str] = mapped_column(String(300), unique=True)
    content: Mapped[dict[str, Any]] = mapped_column(default=dict)
    state: Mapped[str] = mapped_column(String(12), default="waiting")
    remote: Mapped[str] = mapped_column(default="")
    attempts: Mapped[int] = mapped_column(default=0)
    error: Mapped[str] = mapped_column(default="")
    created: Mapped[datetime]
    due: Mapped[datetime]
    sent: Mapped[datetime | None]


class Person(Base):
    """Who signs in. ``password`` is a hash; empty for those who come by their forge alone."""

    __tablename__ = "person"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    email: Mapped[str] = mapped_column(default="")
    password: Mapped[str] = mapped_column(default="")
    identities: Mapped[dict[str, str]] = mapped_column(default=dict)
    is_admin: Mapped[bool] = mapped_column(default=False)
    is_active: Mapped[bool] = mapped_column(default=True)
    created: Mapped[datetime]


class Membership(Base):
    """What a person may do in a repository."""

    __tablename__ = "membership"

    person_id: Mapped[int] = mapped_column(ForeignKey("person.id", ondelete="CASCADE"), primary_key=True)
    repository_id: Mapped[int] = mapped_column(ForeignKey("repository.id", ondelete="CASCADE"), primary_key=True)
    role: Mapped[str] = mapped_column(String(10))


class Token(Base):
    """What a script signs in with. ``digest`` is the SHA-256 of a secret that is shown once.

    Attributes:
        scopes: what it may do: ``read``, ``push`` (hand in results), ``run``, ``admin``.
        repository_id: the only repository it is for; none for all that its person may see.
    """

    __tablename__ = "token"

    id: Mapped[int] = mapped_column(primary_key=True)
    person_id: Mapped[int] = _key("person.id")
    repository_id: Mapped[int | None] = _key("repository.id")
    name: Mapped[str]
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    scopes: Mapped[list[str]] = mapped_column(default=list)
    created: Mapped[datetime]
    expires: Mapped[datetime | None]
    used: Mapped[datetime | None]


class WebSession(Base):
    """A browser that somebody signed in with. ``digest`` is the SHA-256 of what its cookie holds."""

    __tablename__ = "web_session"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    person_id: Mapped[int] = _key("person.id")
    created: Mapped[datetime]
    expires: Mapped[datetime]


class Release(Base):
    """A release of transformers that was seen on the package index."""

    __tablename__ = "release"

    version: Mapped[str] = mapped_column(String(40), primary_key=True)
    is_candidate: Mapped[bool] = mapped_column(default=False)
    is_yanked: Mapped[bool] = mapped_column(default=False)
    uploaded: Mapped[datetime | None]
    seen: Mapped[datetime]


class Worker(Base):
    """A process that runs jobs: where, since when, and when it was last heard of."""

    __tablename__ = "worker"

    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    host: Mapped[str] = mapped_column(default="")
    process: Mapped[int] = mapped_column(default=0)
    isolation: Mapped[str] = mapped_column(default="")
    started: Mapped[datetime]
    seen: Mapped[datetime]


class AuditEntry(Base):
    """Who did what, and when; never changed."""

    __tablename__ = "audit_entry"

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(index=True)
    actor: Mapped[str]
    action: Mapped[str] = mapped_column(String(60))
    subject: Mapped[str] = mapped_column(default="")
    repository_id: Mapped[int | None] = _key("repository.id", ondelete="SET NULL")
    details: Mapped[dict[str, Any]] = mapped_column(default=dict)


class PeriodicTask(Base):
    """What is done again and again, and when it was done last."""

    __tablename__ = "periodic_task"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    done: Mapped[datetime]
