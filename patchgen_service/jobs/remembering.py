"""What a run tells, remembered: in the service's own files, or handed to the service from elsewhere."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Protocol

import httpx
from sqlalchemy.orm import Session

from patchgen_service.jobs.context import LOG, JobContext
from patchgen_service.jobs.engine import Interrupted
from patchgen_service.records.files import keep_file
from patchgen_service.records.machines import EnvironmentFacts, set_environment
from patchgen_service.records.results import add_results, turned_red
from patchgen_service.records.runs import expect_items, hear_from_run, lock_run
from patchgen_service.running.events import Event, FileArrived, ResultArrived, Started
from patchgen_service.store import StoreError

_SECONDS_WITHOUT_SERVICE = 600.0
_SECONDS_FOR_AN_ANSWER = 60.0
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 10.0
_LEFT_OUT = (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


class Memory(Protocol):
    """Takes what a run tells; it may be told the same again."""

    def take(self, event: Event) -> None:
        """Remember an event for good.

        Raises:
            RunEnded: the run takes nothing more.
            StoreError: there is no room for it.
        """


class OwnMemory:
    """Remembers in the database and the stored files of this process's own folder."""

    def __init__(self, context: JobContext, run_id: str) -> None:
        self._context, self._run = context, run_id

    def take(self, event: Event) -> None:
        """Remember an event; a result that is none is left out. The first that is red is told of at once."""
        if self._context.change(lambda session: self._remember(session, event)):
            self._context.tell_status(self._run)

    def _remember(self, session: Session, event: Event) -> bool:
        """Remember it, and return whether the run has turned red with it."""
        now, store = self._context.clock(), self._context.store
        if isinstance(event, Started):
            expect_items(session, self._run, event.project, event.items)
            facts = EnvironmentFacts.of_packages(event.python, event.device, event.packages)
            set_environment(session, self._run, facts, now)
        elif isinstance(event, ResultArrived):
            run = lock_run(session, self._run)
            try:
                return turned_red(
                    session, run.id, add_results(session, store, run, event.project, [event.result], now)
                )
            except ValueError as error:
                LOG.warning("a result of run %s is left out: %s", self._run, error)
        elif isinstance(event, FileArrived):
            keep_file(session, store, lock_run(session, self._run).id, event.kind, event.name, event.content, now)
        return False


class ServiceMemory:
    """Hands everything to a service elsewhere, over HTTP, with the token of the run.

    A service that does not answer is asked again for some minutes.
    """

    def __init__(self, context: JobContext, run_id: str, token: str) -> None:
        self._context, self._run = context, run_id
        self._http = httpx.Client(
            base_url=f"{context.service_url}/api/v1/runs/{run_id}/",
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            timeout=_SECONDS_FOR_AN_ANSWER,
        )

    def take(self, event: Event) -> None:
        """Hand an event in; what the service does not take for a result or file is left out."""
        if isinstance(event, Started):
            environment = {"python": event.python, "device": event.device, "packages": dict(event.packages)}
            self._post("results", {"project": event.project, "items": event.items, "environment": environment})
        elif isinstance(event, ResultArrived):
            self._post("results", {"project": event.project, "results": [dict(event.result)]})
        elif isinstance(event, FileArrived):
            content = base64.b64encode(event.content).decode()
            self._post("files", {"kind": event.kind, "name": event.name, "content": content})

    def _post(self, address: str, value: Mapping[str, Any]) -> None:
        until, wait = time.monotonic() + _SECONDS_WITHOUT_SERVICE, _FIRST_WAIT
        while True:
            try:
                answer = self._http.post(address, content=json.dumps(value))
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if answer.is_success or self._is_final(answer):
                    return
                problem = f"it answers {answer.status_code}"
            if time.monotonic() > until:
                raise ConnectionError(f"the service at {self._context.service_url} cannot be reached: {problem}")
            LOG.warning("the service cannot be reached (%s); trying again in %.1f seconds", problem, wait)
            if self._context.stopping.wait(wait):
                raise Interrupted
            self._look()
            wait = min(2 * wait, _LONGEST_WAIT)

    def _is_final(self, answer: httpx.Response) -> bool:
        """Whether asking again would change nothing, because this is left out; errors as for :meth:`take`."""
        if answer.status_code in _LEFT_OUT:
            LOG.warning("something of run %s is left out: %s", self._run, answer.text[:500])
            return True
        if answer.status_code == HTTPStatus.INSUFFICIENT_STORAGE:
            raise StoreError(f"the disk of the service is full: {answer.text[:200]}")
        if answer.is_client_error and answer.status_code != HTTPStatus.TOO_MANY_REQUESTS:
            self._look()
            raise ConnectionError(f"the service at {self._context.service_url} refused it: {answer.text[:200]}")
        return False

    def _look(self) -> None:
        """RunEnded where the run has ended meanwhile."""
        self._context.change(lambda session: hear_from_run(session, self._run, self._context.clock()))
