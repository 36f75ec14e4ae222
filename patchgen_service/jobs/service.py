"""All background work of one process: started with it, told by pages, driven by the clock."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_service.database.tables import Approval, Repository, Run, Worker
from patchgen_service.forges.api import ForgeError
from patchgen_service.git.errors import GitError
from patchgen_service.isolation.containers import remove_orphans
from patchgen_service.jobs.bisecting import bisect_releases
from patchgen_service.jobs.branches import pending_runs, poll_repository, pushed_runs, run_schedule
from patchgen_service.jobs.context import LOG, JobContext, SteadyClock
from patchgen_service.jobs.deliveries import DeliveryHandler
from patchgen_service.jobs.engine import Engine, Handler, Interrupted
from patchgen_service.jobs.housekeeping import tidy_folder
from patchgen_service.jobs.releases import IndexProblem, watch_releases
from patchgen_service.jobs.run_job import RunJob, clear_work_folder
from patchgen_service.records.machines import (
    forget_worker,
    give_turn_back,
    hear_from_worker,
    runs_of_worker,
    take_turn,
)
from patchgen_service.records.retention import clean_up
from patchgen_service.records.runs import RunProblem, end_run, silent_runs, superseded_runs

RUNS, CHORES = "runs", "chores"
_TICK_SECONDS = 1.0
_SECONDS_TO_STOP = 15.0
_SILENT = timedelta(minutes=5)
_DEAD = timedelta(minutes=10)
_HEAR_EVERY = timedelta(seconds=20)
_CHORES_AT_ONCE = 2
_APPROVALS_AFTER = timedelta(minutes=1)
_MOST_APPROVALS = 20
_MOST_RUNS = 20
"""Of one tick: a flood of them must not keep whoever hands them in from the database."""
_FORGET_AFTER = timedelta(days=7)
_TIDY_EVERY = timedelta(days=1)
_TRY_AGAIN_AFTER = timedelta(minutes=10)
_TELL_AGAIN = timedelta(hours=1)


@dataclass(frozen=True)
class Chore:
    """What is done every so often by one of all processes; ``action`` may be repeated."""

    every: timedelta
    action: Callable[[], object]


class Background(Protocol):
    """What works in threads of its own."""

    def start(self) -> None:
        """Begin to work."""

    def stop(self) -> None:
        """Wait until it has stopped; the context is stopping already."""


class Jobs:
    """The background work of this process.

    Args:
        carries_out: how many runs at once; 0 leaves them to other processes.
        has_clock: whether it does what is done by the clock.
        chores: more of that, by name.
        approve: carries out an approval, given its number.
        propose: proposes a release to a repository, given its number, the version and who wants it.
        others: what else works in threads of its own, and lives as long.
    """

    def __init__(
        self,
        context: JobContext,
        carries_out: int = 1,
        has_clock: bool = True,
        chores: Mapping[str, Chore] | None = None,
        approve: Callable[[int], object] = lambda approval: None,
        propose: Callable[[int, str, str], object] = lambda repository, version, actor: None,
        others: Sequence[Background] = (),
    ) -> None:
        self._context, self._approve, self._has_clock = context, approve, has_clock
        self._propose = propose
        self._deliveries = DeliveryHandler(context, self)
        self._others = [*others, self._deliveries] if has_clock else others
        self._run_job = RunJob(context)
        self._chores = {**self._own_chores(), **(chores or {})}
        sizes = {RUNS: carries_out, CHORES: _CHORES_AT_ONCE if has_clock else 0}
        handlers: dict[str, Handler] = {RUNS: self._run_job, CHORES: self._do_chore}
        self._engine = Engine(
            context.settings.database_url,
            context.worker,
            handlers,
            {name: size for name, size in sizes.items() if size},
        )
        self._thread = threading.Thread(target=self._tick_until_stopped, name="clock of the jobs", daemon=True)
        self._is_started = threading.Event()
        self._heard: datetime | None = None
        self._steady = SteadyClock()
        self._submitted: set[str] = set()

    # --- its life ---

    def start(self) -> None:
        """Resume what an earlier process of this name left, and begin to work."""
        if self._context.settings.database_url.startswith("sqlite"):
            clear_work_folder(self._context.settings)
        if self._context.isolation.kind == "podman" and (orphans := remove_orphans()):
            LOG.warning("containers that an earlier process left are ended: %s", ", ".join(orphans))
        self._engine.start()
        self._resume_runs()
        self._tell_of_pushed_runs()
        self._thread.start()
        for other in self._others:
            other.start()
        self._is_started.set()

    def stop(self) -> None:
        """End the processes of runs and begin nothing more; what was not finished is resumed by the next start."""
        self._context.stopping.set()
        if not self._is_started.is_set():
            return
        self._thread.join()
        for other in self._others:
            other.stop()
        self._run_job.wait_for_end(_SECONDS_TO_STOP)
        self._engine.stop()
        self._context.change(lambda session: forget_worker(session, self._context.worker))

    def _resume_runs(self) -> None:
        """Go on with runs of this process that the jobs know nothing of: their database is a copy, or a backup."""
        runs = self._context.change(lambda session: [run.id for run in runs_of_worker(session, self._context.worker)])
        for run_id in runs:
            if self._engine.is_over(run_id) is None:
                self._engine.submit(RUNS, run_id, run_id)

    def _tell_of_pushed_runs(self) -> None:
        """Tell again of the runs that others carried out: an earlier process may have ended before it did."""
        if self._has_clock:
            since = self._context.clock() - _TELL_AGAIN
            for run_id in self._context.change(lambda session: pushed_runs(session, since, _MOST_RUNS)):
                self._context.tell_status(run_id)

    @property
    def is_stopped(self) -> bool:
        """Whether it begins nothing more."""
        return self._context.stopping.is_set()

    # --- what pages and the API ask for ---

    def begin(self, run_id: str) -> None:
        """Carry out a run that was begun, and stop those that it took the place of."""
        self.tell(run_id)
        if self._is_started.is_set():  # if not, the clock finds it
            self._engine.submit(RUNS, run_id, run_id)

    def tell(self, run_id: str) -> None:
        """Tell elsewhere how a run is now, and stop those that it took the place of."""
        self._context.tell_status(run_id)
        for older in self._context.change(lambda session: [run.id for run in superseded_runs(session, run_id)]):
            self.cancel(older)

    def cancel(self, run_id: str) -> None:
        """End the processes of a run that was cancelled or superseded, and tell of it."""
        self._run_job.stop(run_id)
        self._context.tell_status(run_id)

    def approve(self, approval_id: int) -> None:
        """Carry out an approval."""
        if self._is_started.is_set():
            minute = f"{self._context.clock():%Y%m%dT%H%M}"
            self._engine.submit(CHORES, f"approval-{approval_id}-{minute}", f"approve {approval_id}")

    def handle_deliveries(self) -> None:
        """Do what webhooks asked for that were stored."""
        self._deliveries.tell()

    def propose_release(self, repository_id: int, version: str, actor: str) -> None:
        """Propose a release to a repository; what is asked for twice in a minute is done once."""
        if self._is_started.is_set():
            job = f"propose {repository_id} {version or '-'} {actor}"
            minute = f"{self._context.clock():%Y%m%dT%H%M}"
            self._engine.submit(CHORES, f"propose-{repository_id}-{version}-{minute}", job)

    def forget_runs(self, runs: Sequence[str]) -> None:
        """End the processes of runs whose repository was removed, and then remove its mirror and stored files."""
        for run_id in runs:
            self._run_job.stop(run_id)
        if self._is_started.is_set():  # if not, the clock does it within a day
            self._engine.submit(CHORES, f"tidy-{self._context.clock():%Y%m%dT%H%M%S}", "tidy")

    # --- by the clock ---

    def _own_chores(self) -> dict[str, Chore]:
        context = self._context
        return {
            "releases": Chore(timedelta(hours=1), lambda: watch_releases(context)),
            "bisection": Chore(timedelta(minutes=1), lambda: bisect_releases(context)),
            "retention": Chore(timedelta(days=1), lambda: self._remove_old()),
        }

    def _remove_old(self) -> None:
        context = self._context
        removal = clean_up(context.transactions, context.store, context.settings, context.clock())
        LOG.info("removed what is old: %s", removal)
        self._engine.forget(context.clock() - _FORGET_AFTER)

    def _tick_until_stopped(self) -> None:
        while not self._context.stopping.is_set():
            try:
                self.tick()
            except Exception:  # the database cannot be reached, say: the next tick tries again
                LOG.exception("the clock of the jobs missed a tick")
            self._context.stopping.wait(_TICK_SECONDS)

    def tick(self) -> None:
        """Do what is due now: it is put into queues, and done there."""
        context, now = self._context, self._context.clock()
        waiting = context.change(pending_runs)
        new = [run_id for run_id in waiting if run_id not in self._submitted][:_MOST_RUNS]
        for run_id in new:
            context.tell_status(run_id)
            self._engine.submit(RUNS, run_id, run_id)
        self._submitted = self._submitted.intersection(waiting).union(new)
        if self._heard is None or not self._heard <= now < self._heard + _HEAR_EVERY:
            self._heard = now
            own = (socket.gethostname(), os.getpid(), context.isolation.kind)
            context.change(lambda session: hear_from_worker(session, context.worker, now, *own))
            if context.change(lambda session: take_turn(session, f"tidy {context.worker}", _TIDY_EVERY, now)):
                tidy_folder(context)
        if self._has_clock:
            for job in context.change(lambda session: self._due_chores(session, now)):
                self._engine.submit(CHORES, f"{job}-{now:%Y%m%dT%H%M%S}", job)
            for approval in context.change(lambda session: _stale_approvals(session, now)):
                self.approve(approval)
            self._end_lost_runs(now)

    def _due_chores(self, session: Session, now: datetime) -> list[str]:
        due = [name for name, chore in self._chores.items() if take_turn(session, name, chore.every, now)]
        active = session.scalars(select(Repository).where(Repository.is_active).order_by(Repository.id))
        for repository in active:
            polls = timedelta(seconds=repository.poll_seconds)
            due += [f"poll {repository.id}"] * take_turn(session, f"poll {repository.id}", polls, now)
            minutely = timedelta(minutes=1 if repository.schedule else 0)
            due += [f"schedule {repository.id}"] * take_turn(session, f"schedule {repository.id}", minutely, now)
        return due

    def _do_chore(self, name: str) -> None:
        """Do a chore; what goes wrong is logged, and tried again with its next turn, or in ten minutes."""
        if self._context.stopping.is_set():
            raise Interrupted
        word, _, argument = name.partition(" ")
        try:
            if word == "poll":
                poll_repository(self._context, int(argument))
            elif word == "schedule":
                run_schedule(self._context, int(argument))
            elif word == "approve":
                self._approve(int(argument))
            elif word == "propose":
                number, version, actor = argument.split(" ", 2)
                self._propose(int(number), version.replace("-", ""), actor)
            elif word == "tidy":
                self._remove_old()
                tidy_folder(self._context)
            elif name in self._chores:
                self._chores[name].action()
        except (GitError, ForgeError, IndexProblem) as error:
            LOG.warning("%s: %s", name, error)
            self._try_again(name)
        except Exception:
            LOG.exception("%s failed", name)
            self._try_again(name)

    def _try_again(self, name: str) -> None:
        chore = self._chores.get(name)
        if chore is not None and chore.every > _TRY_AGAIN_AFTER:
            wait, now = (chore.every, _TRY_AGAIN_AFTER), self._context.clock()
            self._context.change(lambda session: give_turn_back(session, name, *wait, now))

    # --- runs that nobody carries out any more ---

    def _end_lost_runs(self, now: datetime) -> None:
        """End runs that were not heard of for long: those whose job is over, and those whose worker is gone.

        When the clock has jumped, others first have the time to be heard of.
        """
        if not self._steady.was_steady(now, time.monotonic()):
            return
        silent = self._context.change(lambda session: [run.id for run in silent_runs(session, now - _SILENT)])
        for run_id in silent:
            if self._context.change(lambda session, run=run_id: self._end_if_lost(session, run, now)):  # type: ignore[misc]
                self._context.tell_status(run_id)

    def _end_if_lost(self, session: Session, run_id: str, now: datetime) -> bool:
        message = self._explain_silence(session, run_id, now)
        if message:
            end_run(session, run_id, now, RunProblem("infrastructure_error", message))
        return bool(message)

    def _explain_silence(self, session: Session, run_id: str, now: datetime) -> str:
        """Why a silent run will not go on; empty where it waits, or may go on."""
        run = session.get_one(Run, run_id)
        if run.token and not run.worker:
            is_late = (run.heard or run.created) < now - timedelta(seconds=self._context.settings.limits.seconds)
            return "The program that hands in its results has been silent for too long." if is_late else ""
        if run.status == "pending":
            return ""
        is_over = self._engine.is_over(run_id)
        if is_over:
            return f"The worker '{run.worker}' gave it up."
        worker = session.get(Worker, run.worker)
        if worker is not None and worker.seen > now - _DEAD:
            return ""
        self._engine.cancel(run_id)
        return f"The worker '{run.worker}' has been silent for more than {_DEAD.seconds // 60} minutes."


def _stale_approvals(session: Session, now: datetime) -> Sequence[int]:
    """Approvals that are still to be carried out: their forge was down, or this process."""
    waiting = select(Approval.id).where(Approval.state == "pending", Approval.created < now - _APPROVALS_AFTER)
    return session.scalars(waiting.order_by(Approval.id).limit(_MOST_APPROVALS)).all()
