"""Runs items of checks in other processes, ahead of the moment at which somebody asks for their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from pathlib import Path

from patchgen_core.checks.check import Check
from patchgen_core.checks.kept.asking import ItemPlace
from patchgen_core.checks.result import CheckResult, unpack
from patchgen_core.checks.running.request import ItemAnswer, ItemRequest
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import ACCELERATORS
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.workers.units import Executor, Task
from patchgen_core.workers.worker import WorkerDied

HANDLER = "patchgen_core.checks.running.answering:answer"
_LINES_SHOWN = 12


class ItemsAhead:
    """The items of a session that an executor runs; :meth:`take` hands out what each comes to, in any order.

    Args:
        devices: the device that each of some items runs on, where the executor chooses a machine by that: results of
            other machines are then not kept for this one.
    """

    def __init__(self, session: Session, executor: Executor, devices: Mapping[ItemPlace, str] | None = None) -> None:
        self.session, self._executor, self.is_elsewhere = session, executor, devices is not None
        self._devices = devices or {}
        self._answers: dict[tuple[str, Path, str], Future[ItemAnswer]] = {}

    def submit(self, units: Iterable[Sequence[ItemPlace]]) -> None:
        """Have items run: units of them that one process runs."""
        units = list(units)
        folders: dict[Path, dict[Path, frozenset[str]]] = {}
        for path, names in self.session.chosen.items():
            folders.setdefault(path.parent, {})[path] = frozenset(names)
        tasks = [[self._task(*item, folders.get(item[1].parent, {})) for item in unit] for unit in units]
        models = [str(unit[0][1].parent) for unit in units]
        for unit, answers in zip(units, self._executor.submit(tasks, models), strict=True):
            for (check, path, item), answer in zip(unit, answers, strict=True):
                self._answers[check.name, path, item] = answer

    def _task(self, check: Check, path: Path, item: str, chosen: dict[Path, frozenset[str]]) -> Task:
        session, kind = self.session, type(check)
        home = f"{kind.__module__}:{kind.__qualname__}"
        device = self._devices.get((check, path, item), session.settings.device)
        settings = replace(session.settings, device=device)
        request = ItemRequest(session.home, settings, session.named, home, path, item, chosen, self.is_elsewhere)
        return Task(request, check.processors(item), ACCELERATORS.get(device, "") if self.is_elsewhere else "")

    def take(self, check: Check, path: Path, item: str) -> tuple[CheckResult, ...] | None:
        """The results of an item, once they are there, with the seconds that it took; None where it is to run in this
        process: it was not submitted, was taken before, or has raised what should be told with its traceback.

        A PatchgenError where it cannot be done.
        """
        future = self._answers.pop((check.name, path, item), None)
        if future is None:
            return None
        answer = self._wait(future, item)
        if answer.results is None:
            return None
        self.session.note_opened(path, answer.opened)
        self.session.asked[check.name, path] = answer.asked
        if answer.problems:
            raise PatchgenError.from_problems(answer.problems)
        return tuple(replace(unpack(result), seconds=answer.seconds) for result in answer.results)

    def _wait(self, future: Future[ItemAnswer], item: str) -> ItemAnswer:
        try:
            return future.result()
        except (WorkerDied, CancelledError) as error:
            output = error.output if isinstance(error, WorkerDied) else ""
            message = f"the process that runs {item} ended twice: {error}"
            raise PatchgenError.from_problems(
                [Problem(message, excerpt="\n".join(output.rstrip().splitlines()[-_LINES_SHOWN:]))]
            ) from None
        except OSError as error:
            raise PatchgenError(f"no process to run checks in can be started: {error.strerror}") from None
        except PatchgenError:
            raise
        except BaseException:  # a test that is interrupted: what it waits for is not to hold up the next one
            self._executor.interrupt(future)
            raise

    def close(self) -> None:
        """End what runs."""
        self._answers.clear()
        self._executor.close()
