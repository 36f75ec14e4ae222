"""The gate over one config of a copy of the zoo, again and again: `python -m tools.mutation.warm_gate CONFIG [first]`

What upstream's models compute for the items of parity, or for the first of them, is computed once. For each line that
it reads, which names checks, a process is forked from this one, which rewrites what drifted, runs the checks in that
order until one is red, and ends; a line of JSON tells what came of them.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from patchgen_core import registry
from patchgen_core.checks.gate import Gate
from patchgen_core.checks.model_process import process as model_process
from patchgen_core.checks.model_process.answering import answer
from patchgen_core.checks.registry import all_checks
from patchgen_core.checks.result import BAD, CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import DRIFT, Settings
from patchgen_core.errors import Location, Problem
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.workers.search_path import search_path

_SECONDS = 600
"""An edit whose checks take longer is ended, and told."""
_PARITY = "parity"
_REGISTRIES = (registry.MODELING_REGISTRY, registry.MODEL_CONFIG_REGISTRY, registry.MODEL_PROCESSOR_REGISTRY)


@dataclass(frozen=True)
class Told:
    """What the gate tells of a config: the first error of the first red item, or else the first warning; all empty
    where there is none."""

    status: str = ""
    item: str = ""
    message: str = ""
    target: str = ""
    file: str = ""
    line: int = 0


class _Here:
    """Answers requests for checks of models in this process."""

    def __init__(
        self, handler: str, time_limit: float, roots: Iterable[str | Path] = (), output_kept: int = 0
    ) -> None:
        self.roots = tuple(roots)

    def ask(self, request: Any, preparation: str = "") -> Any:
        sys.path[:] = search_path(self.roots)
        return answer(request)

    def tell(self, request: Any, preparation: str = "") -> None:
        """There is nothing to do before somebody asks."""

    def close(self) -> None:
        """There is no process to end."""


def run_checks(project: Project, path: Path, checks: Sequence[str], fix: bool, last: int | None = None) -> Told:
    """Run the checks of a config in their order until one is red, as far as the ``last`` of their items."""
    session = Session(project, Settings(fix=fix, caching=False))
    warning = Told()
    try:
        gate = Gate(session, [check for check in all_checks() if check.name in checks])
        items = sorted(gate.items([path]), key=lambda item: checks.index(item.check.name))
        for result in gate.run(items[:last]):
            if result.status in BAD:
                return _tell("caught", result, result.errors)
            if result.warnings and not warning.status:
                warning = _tell("warned", result, result.warnings)
    finally:
        session.close()
    return warning


def _tell(status: str, result: CheckResult, problems: Sequence[Problem]) -> Told:
    item = result.item.rpartition("::")[2]
    if not problems:
        return Told(status, item, result.reason or result.status)
    first = problems[0]
    place = first.location or Location("", 0)
    return Told(status, item, first.message, first.target, place.file, place.line)


def _warm_up(project: Project, path: Path, last: int | None) -> None:
    """Run parity of the config as it is, and keep nothing of it but what upstream's models compute."""
    before = [dict(one._entries) for one in _REGISTRIES]
    run_checks(project, path, [_PARITY], fix=False, last=last)
    for one, entries in zip(_REGISTRIES, before):
        one._entries.clear()
        one._entries.update(entries)
    for name in [name for name in sys.modules if name.partition(".")[0] == project.package_prefix]:
        del sys.modules[name]
    gc.collect()
    gc.freeze()


def _judge(project: Project, path: Path, checks: Sequence[str], pipe: int) -> NoReturn:
    """In a process of its own: run the checks and write what they tell."""
    signal.alarm(_SECONDS)
    try:
        told = run_checks(project, path, checks, fix=True)
    except BaseException as error:
        told = Told("failed", message=f"{type(error).__name__}: {error}")
    with os.fdopen(pipe, "w", encoding="utf-8") as file:
        json.dump(asdict(told), file)
    os._exit(0)


def _fork(project: Project, path: Path, checks: Sequence[str]) -> str:
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        _judge(project, path, checks, writing)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as file:
        line = file.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        return json.dumps(asdict(Told("failed", message=f"it takes longer than {_SECONDS} s")))
    return line or json.dumps(asdict(Told("caught", message=f"a process of the gate ends with status {status}")))


def main(argv: Sequence[str]) -> None:
    """Answer lines, each of them names of checks, until there are no more."""
    config, last = Path(argv[0]).resolve(), 1 if "first" in argv else None
    model_process.Worker = _Here  # type: ignore[misc, assignment]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    project = load_project(Path.cwd())
    _warm_up(project, config, last)
    for line in sys.stdin:
        print(_fork(project, config, [DRIFT, *line.strip().split(",")]), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
