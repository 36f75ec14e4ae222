"""The gate over one project, in a box, and what it says line by line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from patchgen_core.checks.result import CheckResult, pack, unpack, with_paths
from patchgen_core.checks.settings import JOBS
from patchgen_core.project.cache_folder import ENVIRONMENT as CACHE_FOLDER
from patchgen_core.syntax.diffs import apply_diff
from patchgen_service.environments import PythonEnvironment
from patchgen_service.isolation.box import Box, Kind, Limits
from patchgen_service.isolation.process import Exit, run_command
from patchgen_service.running.events import FileArrived, ResultArrived, Started, Tell

CHECKOUT = Path("/checkout")
"""Where an isolated process has the worktree."""
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
_LAST_LINES = 3


@dataclass(frozen=True)
class Checkout:
    """A worktree of a commit, and how a file of that commit is read: None where it has none."""

    folder: Path
    read_file: Callable[[str], bytes | None]


class GateProblem(Exception):
    """The gate over a project could not be carried through: why, in a sentence."""


def run_gate(
    run: str,
    project: str,
    checks: Iterable[str],
    checkout: Checkout,
    environment: PythonEnvironment,
    kind: Kind,
    limits: Limits,
    tell: Tell,
    should_stop: Callable[[], bool],
    hidden: tuple[Path, ...] = (),
    cluster: str = "",
) -> Exit:
    """Run the gate over a project and tell what it says; a GateProblem where it came to no end of its own.

    An exit that has a message is that of a gate which was ended. ``cluster`` is the address of the Ray cluster that
    does what takes long; code in the box then has the network.
    """
    reader = _StreamReader(run, project, checkout, tell)
    box = make_box(project, checkout, environment, kind, limits, hidden)
    names = ",".join(checks)
    command = [str(environment.python), "-m", "patchgen_core", "gate", "--stream=-", "--no-color"]
    if cluster:
        variables = {name: value for name, value in box.environment.items() if name != JOBS}
        box = replace(box, has_network=True, environment=variables)
        command.append(f"--on={cluster}")
    try:
        exit = run_command(kind, box, [*command, *([f"--checks={names}"] if names else [])], reader.take, should_stop)
    except OSError as error:
        raise GateProblem(f"the gate cannot be started: {error.strerror}") from error
    tell(FileArrived(run, "log", f"{project}/gate.log", exit.tail.encode()))
    if exit.message:
        return exit
    if not reader.is_over:
        raise GateProblem(_describe_death(exit))
    if reader.errors:
        raise GateProblem("; ".join(reader.errors))
    return exit


def make_box(
    project: str,
    checkout: Checkout,
    environment: PythonEnvironment,
    kind: Kind,
    limits: Limits,
    hidden: tuple[Path, ...],
) -> Box:
    """What a command over a project sees: its repository, which it cannot write to, and its environment."""
    root = checkout.folder if kind == "none" else CHECKOUT
    variables = {
        **_OFFLINE,
        **({} if kind == "none" else {CACHE_FOLDER: "/tmp/patchgen-cache"}),
        "PATH": f"{environment.python.parent}:/usr/local/bin:/usr/bin:/bin",
        JOBS: "1",  # so many runs as the service starts are beside each other, within their limits
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    readable = {**environment.readable, checkout.folder: CHECKOUT}
    return Box(root / project, readable, hidden=hidden, environment=variables, limits=limits)


def _describe_death(exit: Exit) -> str:
    how = f"was killed by signal {-exit.code}" if exit.code < 0 else f"ended with code {exit.code}"
    if exit.code > 128:
        how = f"was killed by signal {exit.code - 128}"
    last = " / ".join(line.strip() for line in exit.tail.splitlines()[-_LAST_LINES:] if line.strip())
    return f"the gate {how} before it was done{': ' + last if last else ''}"


class _StreamReader:
    """Tells what the lines of a stream say; paths then start from the repository's root."""

    def __init__(self, run: str, project: str, checkout: Checkout, tell: Tell) -> None:
        self._run, self._project, self._checkout, self._tell = run, project, checkout, tell
        self.is_over = False
        self.errors: list[str] = []

    def take(self, line: bytes) -> None:
        """Tell what a line says; a GateProblem where it is none of a stream."""
        try:
            ((kind, value),) = json.loads(line).items()
            if kind == "begin":
                environment = value["environment"]
                facts = (environment["python"], environment["device"], environment["packages"])
                self._tell(Started(self._run, self._project, int(value["items"]), *facts))
            elif kind == "result":
                self._take_result(value)
            elif kind == "end":
                self.is_over = True
                self.errors = [str(error["message"]) for error in value.get("errors", ())]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise GateProblem(
                f"the gate wrote a line that does not belong to a stream ({type(error).__name__})"
            ) from None

    def _take_result(self, packed: Mapping[str, Any]) -> None:
        result = with_paths(unpack(packed), self._from_repository)
        for name, content in _regenerate(result, self._checkout):
            self._tell(FileArrived(self._run, "generated", name, content))
        self._tell(ResultArrived(self._run, self._project, pack(result)))

    def _from_repository(self, path: str) -> str:
        return path_in_repository(self._project, path)


def path_in_repository(project: str, path: str) -> str:
    """A path that starts from a project, as one that starts from the repository's root."""
    return path if path.startswith("/") else (PurePosixPath(project) / path).as_posix()


def _regenerate(result: CheckResult, checkout: Checkout) -> Iterable[tuple[str, bytes]]:
    """The files that a drifted config makes now: those of the commit with the diffs applied."""
    if result.status != "drifted":
        return
    for file in result.files:
        path = PurePosixPath(file.path)
        if path.is_absolute() or ".." in path.parts:
            continue
        before = checkout.read_file(file.path) or b""
        after = apply_diff(before.decode("utf-8", "replace"), file.diff)
        if after is not None:
            yield file.path, after.encode()
