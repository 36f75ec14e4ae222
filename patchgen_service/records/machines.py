"""What runs are carried out on and with: environments, workers, releases of transformers, and what is done by the
clock."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_core.files import text_digest
from patchgen_service.database.statements import insert_once, lock_name, lock_row
from patchgen_service.database.tables import Environment, PeriodicTask, Release, Run, Worker
from patchgen_service.records.runs import lock_run

_KERNELS = ("liger-kernel", "triton", "flash-attn", "flash-linear-attention")


@dataclass(frozen=True)
class EnvironmentFacts:
    """What a run's verdicts depend on beside its commit; ``packages`` are those installed, with their versions."""

    python: str = ""
    torch: str = ""
    transformers: str = ""
    kernels: dict[str, str] = field(default_factory=dict)
    device: str = "cpu"
    packages: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_packages(cls, python: str, device: str, packages: Mapping[str, str]) -> EnvironmentFacts:
        """The facts that follow from what is installed."""
        versions = {str(name): str(packages[name]) for name in sorted(packages)}
        kernels = {name: versions[name] for name in _KERNELS if name in versions}
        torch, transformers = versions.get("torch", ""), versions.get("transformers", "")
        return cls(python, torch, transformers, kernels, device or "cpu", versions)

    @property
    def digest(self) -> str:
        """What stands for all of it."""
        return text_digest(json.dumps(asdict(self), sort_keys=True))


def set_environment(session: Session, run_id: str, facts: EnvironmentFacts, now: datetime) -> Environment:
    """Note in which environment a run is carried out."""
    insert_once(session, Environment, digest=facts.digest, created=now, used=now, **asdict(facts))
    environment = session.scalars(select(Environment).filter_by(digest=facts.digest)).one()
    environment.used = now
    lock_run(session, run_id).environment_id = environment.id
    return environment


def hear_from_worker(session: Session, name: str, now: datetime, host: str, process: int, isolation: str) -> None:
    """Note a sign of life of a worker; another process under its name is a new start."""
    insert_once(session, Worker, name=name, host=host, process=process, isolation=isolation, started=now, seen=now)
    worker = lock_row(session, Worker, name)
    assert worker is not None
    if (worker.host, worker.process) != (host, process):
        worker.started = now
    worker.host, worker.process, worker.isolation, worker.seen = host, process, isolation, now


def forget_worker(session: Session, name: str) -> None:
    """Note that a worker has stopped as it should."""
    worker = session.get(Worker, name)
    if worker is not None:
        session.delete(worker)


def live_workers(session: Session, since: datetime) -> Sequence[Worker]:
    """The workers that have been heard of since then."""
    return session.scalars(select(Worker).where(Worker.seen > since).order_by(Worker.name)).all()


@dataclass(frozen=True)
class ReleaseFacts:
    """A release as the package index has it."""

    version: str
    is_candidate: bool = False
    is_yanked: bool = False
    uploaded: datetime | None = None


def note_releases(session: Session, releases: Iterable[ReleaseFacts], now: datetime) -> Sequence[Release]:
    """Remember releases, and return those that were not known; one that was withdrawn since is noted as such."""
    new = []
    for facts in releases:
        is_new = insert_once(session, Release, seen=now, **asdict(facts))
        release = session.get_one(Release, facts.version)
        release.is_yanked = facts.is_yanked
        if is_new:
            new.append(release)
    return new


def take_turn(session: Session, name: str, every: timedelta, now: datetime) -> bool:
    """Whether it is time for what is done every so often; of several processes that ask, one is told so.

    A time of the last turn that is yet to come is one of a clock that has jumped since, and is forgotten.
    """
    if every <= timedelta():
        return False
    lock_name(session, f"task {name}")
    if insert_once(session, PeriodicTask, name=name, done=now):
        return True
    task = lock_row(session, PeriodicTask, name)
    assert task is not None
    if task.done <= now < task.done + every:
        return False
    task.done = now
    return True


def give_turn_back(session: Session, name: str, every: timedelta, wait: timedelta, now: datetime) -> None:
    """Have something that was not done in its turn tried again after a wait, where its next turn comes later."""
    task = lock_row(session, PeriodicTask, name)
    if task is not None:
        task.done = min(now, now - every + wait)


def runs_of_worker(session: Session, name: str) -> Sequence[Run]:
    """The runs that a worker carries out, as far as is known."""
    return session.scalars(select(Run).where(Run.worker == name, Run.status == "running").order_by(Run.created)).all()
