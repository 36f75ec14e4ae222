"""The job of a run: it is carried out here, and what it tells is remembered as it comes."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from pathlib import Path

from sqlalchemy.orm import Session

from patchgen_service.database.tables import Repository, Run, Trigger
from patchgen_service.database.words import UNFINISHED
from patchgen_service.git.errors import GitError
from patchgen_service.git.mirror import Mirror
from patchgen_service.isolation.box import MEBIBYTE, Limits
from patchgen_service.jobs.context import LOG, JobContext
from patchgen_service.jobs.engine import Interrupted
from patchgen_service.jobs.remembering import Memory, OwnMemory, ServiceMemory
from patchgen_service.records.baselines import choose_baseline
from patchgen_service.records.runs import (
    RunEnded,
    RunProblem,
    end_run,
    hear_from_run,
    lock_run,
    make_run_token,
    start_run,
)
from patchgen_service.running.events import Ended, Event, Started
from patchgen_service.running.order import RunOrder
from patchgen_service.running.run import Workplace, carry_out
from patchgen_service.settings import RunLimits, ServiceSettings
from patchgen_service.store import StoreError

_LOOK_EVERY = 0.5
_HEAR_EVERY = 30.0
_LOOK_AGAIN = 0.02


class RunJob:
    """Carries out runs of this process. Runs end here, be it well or not, or because their process does."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._stops: dict[str, threading.Event] = {}

    def __call__(self, run_id: str) -> None:
        """Carry out a run; again where it was not through. One that has ended stays as it is."""
        context = self._context
        if context.stopping.is_set():
            raise Interrupted
        stop = self._stops.setdefault(run_id, threading.Event())
        try:
            self._carry_out(run_id, stop)
        except RunEnded:
            LOG.info("run %s was cancelled, superseded or removed", run_id)
        except StoreError as error:
            self._end(run_id, RunProblem("infrastructure_error", f"The service could not continue: {error}."))
        except Exception as error:
            LOG.exception("run %s failed", run_id)
            what = f"{type(error).__name__}: {error}"
            self._end(run_id, RunProblem("infrastructure_error", f"The service failed over this run: {what}"))
        finally:
            self._stops.pop(run_id, None)
        context.tell_status(run_id)

    def stop(self, run_id: str) -> None:
        """End the processes of a run that is not wanted any more, where it runs here."""
        stop = self._stops.get(run_id)
        if stop is not None:
            stop.set()

    def wait_for_end(self, seconds: float) -> None:
        """Wait until no run is carried out here any more, and none of their processes is left."""
        deadline = time.monotonic() + seconds
        while self._stops and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN)

    def _end(self, run_id: str, problem: RunProblem | None) -> None:
        with contextlib.suppress(RunEnded):
            self._context.change(lambda session: end_run(session, run_id, self._context.clock(), problem))

    def _carry_out(self, run_id: str, stop: threading.Event) -> None:
        context = self._context
        order, mirror, memory = context.change(lambda session: self._start(session, run_id))
        listener = _Listener(context, mirror, run_id, memory)
        watch = _StopWatch(context, run_id, stop)
        place = make_workplace(context.settings, context)
        ended = carry_out(order, mirror, place, listener.take, watch.should_stop)
        if ended.ending == "cancelled":
            if context.stopping.is_set() and not watch.is_unwanted:
                raise Interrupted
            return
        problem = None
        if ended.ending != "finished":
            problem = RunProblem(ended.ending, ended.message)
        self._end(run_id, problem)

    def _start(self, session: Session, run_id: str) -> tuple[RunOrder, Mirror, Memory]:
        context = self._context
        run = start_run(session, run_id, context.worker, context.clock())
        repository = session.get_one(Repository, run.repository_id)
        memory: Memory = OwnMemory(context, run_id)
        if context.service_url:
            memory = ServiceMemory(context, run_id, make_run_token(session, run_id))
        return make_order(repository, run), context.open_mirror(repository), memory


class _StopWatch:
    """Whether a run is to go on; looks at the database now and then, and notes there that it does."""

    def __init__(self, context: JobContext, run_id: str, stop: threading.Event) -> None:
        self._context, self._run, self._stop = context, run_id, stop
        self._look_due = 0.0
        self._hear_due = time.monotonic() + _HEAR_EVERY
        self.is_unwanted = False

    def should_stop(self) -> bool:
        """Whether it was cancelled or superseded, or this process ends."""
        now = time.monotonic()
        if self._stop.is_set() or now >= self._look_due:
            self._look_due = now + _LOOK_EVERY
            try:
                self._look(now)
            except RunEnded:
                self.is_unwanted = True
            except Exception:  # the database cannot be reached: what is to be told will wait for it
                LOG.warning("cannot see whether run %s is still wanted", self._run)
        return self.is_unwanted or self._context.stopping.is_set()

    def _look(self, now: float) -> None:
        with self._context.transactions() as session:
            if now >= self._hear_due:
                self._hear_due = now + _HEAR_EVERY
                hear_from_run(session, self._run, self._context.clock())
            run = session.get(Run, self._run)
            self.is_unwanted = run is None or run.status not in UNFINISHED


class _Listener:
    """Has remembered what a run tells, and chooses what it is compared with before its first result."""

    def __init__(self, context: JobContext, mirror: Mirror, run_id: str, memory: Memory) -> None:
        self._context, self._mirror, self._run, self._memory = context, mirror, run_id, memory
        self._has_baseline = False

    def take(self, event: Event) -> None:
        """Remember it for good before the run goes on."""
        if isinstance(event, Ended):
            return
        if isinstance(event, Started) and not self._has_baseline:
            self._choose_baseline()
        self._memory.take(event)

    def _choose_baseline(self) -> None:
        self._has_baseline = True
        base, sha, is_pull_request = self._context.change(self._read_base)
        merge_base, is_ancestor = "", self._mirror.is_ancestor
        if is_pull_request:
            try:
                merge_base = self._mirror.find_merge_base(self._mirror.resolve(base), sha)
            except GitError as error:
                LOG.info("run %s has no merge base: %s", self._run, error)
        self._context.change(lambda session: choose_baseline(session, self._run, merge_base, is_ancestor))

    def _read_base(self, session: Session) -> tuple[str, str, bool]:
        run = lock_run(session, self._run)
        repository = session.get_one(Repository, run.repository_id)
        trigger = session.get_one(Trigger, run.trigger_id)
        return trigger.base or repository.default_branch, run.sha, bool(run.pull_request)


def make_order(repository: Repository, run: Run) -> RunOrder:
    """What is to be run."""
    return RunOrder(
        run.id,
        repository.name,
        repository.url,
        run.sha,
        ref=pull_request_ref(repository, run),
        projects=tuple(repository.projects) or (".",),
        checks=tuple(repository.checks),
        python=repository.python,
        constraints=repository.constraints,
        extras=tuple(repository.extras),
        transformers=run.transformers,
        is_trusted=repository.is_trusted and not run.is_fork,
    )


def pull_request_ref(repository: Repository, run: Run) -> str:
    """The reference that git fetches the commit of a pull request by; empty for a branch."""
    ref = {"gitlab": "refs/merge-requests/{}/head", "none": ""}.get(repository.forge, "refs/pull/{}/head")
    return ref.format(run.pull_request) if run.pull_request else ""


def make_workplace(settings: ServiceSettings, context: JobContext) -> Workplace:
    """Where runs are carried out, and what they may use up."""
    limits = settings.limits
    return Workplace(
        settings.work_folder,
        settings.environments_folder,
        context.isolation,
        (settings.folder,),
        _read_limits(limits, limits.seconds),
        _read_limits(limits, limits.install_seconds),
        settings.pip_index,
        settings.cluster,
        Path(settings.history) if settings.history else None,
    )


def _read_limits(limits: RunLimits, seconds: float) -> Limits:
    return Limits(seconds, limits.memory_mib * MEBIBYTE, limits.processes, limits.disk_mib * MEBIBYTE)


def clear_work_folder(settings: ServiceSettings) -> None:
    """Remove the worktrees that a process left which was killed; no run may be going on."""
    shutil.rmtree(settings.work_folder, ignore_errors=True)
