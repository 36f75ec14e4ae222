"""Durable jobs. The only module that knows DBOS: another engine would change this file alone."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID
from sqlalchemy.exc import OperationalError

Handler = Callable[[str], None]
"""Does a job, given its argument; may be called again for a job that was not through."""

_APPLICATION = "patchgen"
_SQLITE = "sqlite:///"
_VERSION = "1"
"""Jobs of another version are not resumed; the arguments of jobs are of one form as long as this stays."""
_POLLING_SECONDS = {"runs": 0.2}
"""How often queues are looked into that people wait for."""
_SELDOM_SECONDS = 1.0
_OVER = {"SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"}
_SECONDS_TO_LAUNCH = 60.0
_MOST_ATTEMPTS = 1000
_MOST_AT_ONCE = 500


class Interrupted(BaseException):
    """A job stops here because the process ends, and is resumed by the next one of the same name.

    The engine takes every Exception for the end of a job, and this for none.
    """


class MillisecondConnection(sqlite3.Connection):
    """A connection that knows SQL's ``unixepoch('subsec')``, the time in seconds with milliseconds.

    DBOS counts on it from Python 3.12 on; SQLite has it from 3.42 on, and some systems an older one.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if sqlite3.sqlite_version_info < (3, 42):
            self.create_function("unixepoch", 1, lambda _: round(time.time(), 3))


class Engine:
    """Queues of jobs, each done once, by this process or another one on the same database.

    Args:
        url: the database of the service; jobs on SQLite have a file of their own beside it.
        name: of this process; one of the same name resumes what this one did not finish.
        handlers: what does the jobs of each queue.
        sizes: how many jobs of a queue this process does at once; it leaves those of other queues alone.
    """

    def __init__(self, url: str, name: str, handlers: Mapping[str, Handler], sizes: Mapping[str, int]) -> None:
        self._url, self._name, self._handlers, self._sizes = url, name, dict(handlers), dict(sizes)
        self._workflows: dict[str, Callable[[str], None]] = {}

    def start(self) -> None:
        """Begin to do jobs, those first that an earlier process of this name did not finish.

        A database that is being started itself is waited for.
        """
        deadline = time.monotonic() + _SECONDS_TO_LAUNCH
        while True:
            try:
                return self._launch()
            except OperationalError:
                DBOS.destroy(destroy_registry=True)
                if time.monotonic() > deadline:
                    raise
                time.sleep(_SELDOM_SECONDS)

    def _launch(self) -> None:
        threads = sum(self._sizes.values()) + 8
        config: DBOSConfig = {
            "name": _APPLICATION,
            "system_database_url": jobs_url(self._url),
            "application_version": _VERSION,
            "executor_id": self._name,
            "log_level": "ERROR",
            "run_migrations": True,
            "max_executor_threads": threads,
            "use_listen_notify": True,
        }
        if self._url.startswith(_SQLITE):
            config["db_engine_kwargs"] = {"connect_args": {"factory": MillisecondConnection}}
        DBOS(config=config)
        for queue, handler in self._handlers.items():
            self._workflows[queue] = _make_workflow(queue, handler)
        DBOS.listen_queues(list(self._sizes))
        DBOS.launch()
        for queue, size in self._sizes.items():
            seconds = _POLLING_SECONDS.get(queue, _SELDOM_SECONDS)
            DBOS.register_queue(queue, worker_concurrency=size, polling_interval_sec=seconds)

    def submit(self, queue: str, job: str, argument: str) -> None:
        """Have a job done; one of the same id that is there already, or was done, changes nothing."""
        with SetWorkflowID(job):
            DBOS.enqueue_workflow(queue, self._workflows[queue], argument)

    def is_over(self, job: str) -> bool | None:
        """Whether a job is over, well or not; None where there is none of this id."""
        status = DBOS.get_workflow_status(job)
        return None if status is None else status.status in _OVER

    def cancel(self, job: str) -> None:
        """Begin a job no more that waits, and resume one no more that runs."""
        DBOS.cancel_workflow(job)

    def forget(self, before: datetime) -> int:
        """Forget jobs that were over before a time, and return how many; they would pile up."""
        count = 0
        while jobs := DBOS.list_workflows(
            completed_before=before.isoformat(), limit=_MOST_AT_ONCE, load_input=False, load_output=False
        ):
            DBOS.delete_workflows([job.workflow_id for job in jobs])
            count += len(jobs)
        return count

    def stop(self) -> None:
        """Begin no more jobs; those that run are to raise :class:`Interrupted`."""
        DBOS.destroy(destroy_registry=True)


def jobs_url(url: str) -> str:
    """The database that jobs are in, given that of the service."""
    if not url.startswith(_SQLITE):
        return url
    path = Path(url.removeprefix(_SQLITE))
    return f"{_SQLITE}{path.with_name(f'{path.stem}-jobs.sqlite')}"


def _make_workflow(queue: str, handler: Handler) -> Callable[[str], None]:
    """The engine's form of a handler, under a name that stays."""

    def work(argument: str) -> None:
        handler(argument)

    work.__qualname__ = work.__name__ = f"{_APPLICATION}_{queue}"
    return DBOS.workflow(name=work.__name__, max_recovery_attempts=_MOST_ATTEMPTS)(work)
