"""A process for each defect, forked from one that has imported all that models need."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tools.mutation.gate_judge import Gate, Outcome
from tools.mutation.mutant import CodeMutant

TIME_LIMIT = 300.0


@dataclass(frozen=True)
class Task:
    """A defect to judge, None for the config as it is, and the implementations to check it under."""

    mutant: CodeMutant | None
    names: tuple[str, ...]


@dataclass
class _Child:
    task: Task
    pid: int
    pipe: int
    started: float
    answer: bytes = b""


def judge_all(gate: Gate, tasks: Iterable[Task], jobs: int) -> Iterator[tuple[Task, Outcome]]:
    """Judge defects, each in a process that is forked from this one, as many at a time as ``jobs``."""
    waiting = iter(tasks)
    running: dict[int, _Child] = {}
    try:
        while True:
            while len(running) < jobs and (task := next(waiting, None)) is not None:
                child = _fork(gate, task)
                running[child.pipe] = child
            if not running:
                return
            for pipe in select.select(list(running), [], [], 1.0)[0]:
                data = os.read(pipe, 65536)
                running[pipe].answer += data
                if not data:
                    child = running.pop(pipe)
                    yield child.task, _ended(child)
            for child in [one for one in running.values() if time.monotonic() - one.started > TIME_LIMIT]:
                os.kill(child.pid, signal.SIGKILL)
                child.answer = b""
    finally:
        for child in running.values():
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)


def _fork(gate: Gate, task: Task) -> _Child:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return _Child(task, pid, reading, time.monotonic())
    status = 1
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        outcome = gate.judge(task.mutant, task.names)
        with os.fdopen(writing, "w", encoding="utf-8") as file:
            json.dump([outcome.verdict, outcome.by, outcome.message], file)
        status = 0
    except BaseException as error:
        with os.fdopen(writing, "w", encoding="utf-8") as file:
            json.dump(["failed", "", f"{type(error).__name__}: {error}"], file)
    finally:
        os._exit(status)


def _ended(child: _Child) -> Outcome:
    os.close(child.pipe)
    _, status = os.waitpid(child.pid, 0)
    seconds = time.monotonic() - child.started
    if child.answer:
        verdict, by, message = json.loads(child.answer)
        if verdict == "failed":
            raise RuntimeError(f"a mutant cannot be judged: {message}")
        return Outcome(verdict, by, message, seconds)
    if seconds > TIME_LIMIT:
        return Outcome("hang", seconds=seconds)
    return Outcome("crash", "process", f"status {status}", seconds)
