"""What jobs work with, and the waits and clocks that they have in common."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TypeVar

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session

from patchgen_service.database.engine import UNAVAILABLE, Transactions
from patchgen_service.database.tables import Repository
from patchgen_service.forges.access import ForgeAccess
from patchgen_service.forges.github.app import GithubApp
from patchgen_service.git.mirror import Mirror
from patchgen_service.isolation.probe import Isolation
from patchgen_service.jobs.engine import Interrupted
from patchgen_service.secrets import SecretBox
from patchgen_service.settings import ServiceSettings
from patchgen_service.store import Store

LOG = logging.getLogger("patchgen.jobs")
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0
_SECONDS_WITHOUT_DATABASE = 600.0
_JUMP_SECONDS, _SECONDS_AFTER_JUMP = 30.0, 300.0

Answer = TypeVar("Answer")


def read_clock() -> datetime:
    """Now, in UTC."""
    return datetime.now(timezone.utc)


class SteadyClock:
    """Whether the clock has run evenly for a while: else what it says of the time since something is not trusted."""

    def __init__(self) -> None:
        self._last: tuple[datetime, float] | None = None
        self._jumped = -math.inf

    def was_steady(self, now: datetime, monotonic: float) -> bool:
        """Whether it has not jumped in the last minutes; to be asked every second or so.

        A machine that slept has a clock that jumped.
        """
        if self._last is not None:
            passed, elapsed = (now - self._last[0]).total_seconds(), monotonic - self._last[1]
            if abs(passed - elapsed) > _JUMP_SECONDS:
                LOG.warning("the clock has jumped by %.0f seconds", passed - elapsed)
                self._jumped = monotonic
        self._last = (now, monotonic)
        return monotonic - self._jumped > _SECONDS_AFTER_JUMP


@dataclass(frozen=True)
class JobContext:
    """What jobs work with.

    Attributes:
        worker: name of this process; one that comes after it has the same.
        stopping: set when the process is going to end.
        service_url: where results and files are handed in, by a process that does not share the service's folder;
            empty where it does.
        tell_status: has it told elsewhere that a run is pending, or how it ended; called outside of a transaction,
            and perhaps again.
        app: the service as an app on GitHub; none where it is none.
    """

    settings: ServiceSettings
    transactions: Transactions
    store: Store
    secrets: SecretBox
    isolation: Isolation
    worker: str = "service"
    clock: Callable[[], datetime] = read_clock
    stopping: threading.Event = field(default_factory=threading.Event)
    service_url: str = ""
    tell_status: Callable[[str], object] = lambda run: None
    app: GithubApp | None = None

    @property
    def access(self) -> ForgeAccess:
        """How it gets into forges."""
        return ForgeAccess(self.secrets, self.app)

    def open_mirror(self, repository: Repository) -> Mirror:
        """The mirror of a repository, with what gets into it."""
        return Mirror(self.settings.mirrors_folder / str(repository.id), self.access.make_remote(repository))

    def change(self, action: Callable[[Session], Answer]) -> Answer:
        """Do something in a transaction, and again for some minutes while the database cannot be reached.

        Interrupted where this process ends meanwhile.
        """
        until, wait = time.monotonic() + _SECONDS_WITHOUT_DATABASE, _FIRST_WAIT
        while True:
            try:
                with self.transactions() as session:
                    return action(session)
            except SQLAlchemyError as error:
                if not is_passing(error) or time.monotonic() > until:
                    raise
                if self.stopping.is_set():
                    raise Interrupted from error
                LOG.warning("the database cannot be reached; trying again in %.1f seconds", wait)
            self.stopping.wait(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


def is_passing(error: SQLAlchemyError) -> bool:
    """Whether the database may take the same again a little later."""
    is_lost = isinstance(error, DBAPIError) and error.connection_invalidated
    return is_lost or isinstance(error, UNAVAILABLE)
