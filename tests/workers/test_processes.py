"""Units of tasks that processes of this machine do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from patchgen_core.errors import PatchgenError
from patchgen_core.workers.machine import available_memory, count_processors
from patchgen_core.workers.processes import UnitExecutor, make_workers
from patchgen_core.workers.processors import share_out
from patchgen_core.workers.units import Task
from patchgen_core.workers.worker import WorkerDied

HANDLER = """
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from patchgen_core.errors import PatchgenError

tasks = []


def run(request):
    kind, value = request
    tasks.append(value)
    if kind == "die":
        os._exit(3)
    if kind == "die once":
        if not os.path.exists(value):
            open(value, "w").close()
            os._exit(3)
        return "alive"
    if kind == "refuse":
        raise PatchgenError("not here")
    if kind == "hang":
        Path(value).write_text(str(os.getpid()))
        time.sleep(600)
    if kind == "meet":
        folder, number = value
        (folder / f"{os.getpid()}-{number}").touch()
        while len(list(folder.glob("*-*"))) < number:
            time.sleep(0.01)
    if kind == "place":
        own = os.sched_getaffinity(0)
        code = "import os; print(sorted(os.sched_getaffinity(0)))"
        started = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
        return own, set(json.loads(started.stdout))
    if kind == "note":
        start = time.monotonic()
        time.sleep(0.3)
        return start, time.monotonic()
    return os.getpid(), list(tasks)
"""


@pytest.fixture
def unit_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that processes can import what they do from."""
    (tmp_path / "unit_tasks.py").write_text(HANDLER, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def executor(unit_tasks: Path) -> Iterator[UnitExecutor]:
    """Two processes with two processors."""
    executor = UnitExecutor(make_workers("unit_tasks:run", 2), 2)
    yield executor
    executor.close()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_unit_stays_in_one_process_and_keeps_its_order(executor: UnitExecutor) -> None:
    units = [[Task(("tell", f"{unit}{number}")) for number in range(3)] for unit in "abcd"]
    answers = [[answer.result(60) for answer in unit] for unit in executor.submit(units)]
    assert len({process for unit in answers for process, _ in unit}) <= 2
    for name, unit in zip("abcd", answers, strict=True):
        assert len({process for process, _ in unit}) == 1
        assert unit[-1][1][-3:] == [f"{name}0", f"{name}1", f"{name}2"]


def test_a_process_rather_takes_what_it_knows(executor: UnitExecutor, tmp_path: Path) -> None:
    meetings = [(tmp_path, 2), (tmp_path, 2), (tmp_path, 4), (tmp_path, 4)]
    answers = executor.submit([[Task(("meet", meeting))] for meeting in meetings], ["a", "b", "b", "a"])
    first, second, third, fourth = (answer.result(60)[0] for (answer,) in answers)
    assert first == fourth != second == third


def test_each_process_has_its_share_of_the_processors(executor: UnitExecutor, tmp_path: Path) -> None:
    answers = executor.submit([[Task(("meet", (tmp_path, 2))), Task(("place", None))] for _ in range(2)])
    places = [answer.result(60) for _, answer in answers]
    every = os.sched_getaffinity(0)
    assert places == [(share, share) for share in share_out(frozenset(every), 2)]
    assert set().union(*(own for own, _ in places)) == every


def test_processors_are_shared_out() -> None:
    assert share_out(frozenset(range(4)), 2) == [{0, 2}, {1, 3}]
    assert share_out(frozenset(range(4)), 3) == [{0, 3}, {1}, {2}]
    assert share_out(frozenset([4, 6]), 4) == [{4}, {6}, {4}, {6}]
    assert share_out(frozenset(), 2) == [frozenset(), frozenset()]


def test_a_process_that_ends_is_started_anew_once(executor: UnitExecutor, tmp_path: Path) -> None:
    tasks = [("die once", str(tmp_path / "mark")), ("die", ""), ("refuse", ""), ("tell", "last")]
    once, dies, refuses, last = executor.submit([[Task(task) for task in tasks]])[0]
    assert once.result(60) == "alive"
    with pytest.raises(WorkerDied, match="exit code 3"):
        dies.result(60)
    with pytest.raises(PatchgenError, match="not here"):
        refuses.result(60)
    assert last.result(60)[1][-1] == "last"


def test_what_nobody_waits_for_is_ended_and_the_rest_of_its_unit_done(executor: UnitExecutor, tmp_path: Path) -> None:
    started = tmp_path / "started"
    hangs, last = executor.submit([[Task(("hang", str(started))), Task(("tell", "last"))]])[0]
    until(lambda: started.exists() and started.read_text())
    executor.interrupt(hangs)
    assert last.result(60)[1] == ["last"]
    assert not is_running(int(started.read_text()))


def test_closing_ends_what_runs(executor: UnitExecutor, tmp_path: Path) -> None:
    started = tmp_path / "started"
    executor.submit([[Task(("hang", str(started)))], [Task(("hang", str(tmp_path / "other")))]])
    until(lambda: started.exists() and started.read_text())
    executor.close()
    assert not is_running(int(started.read_text()))


def test_a_task_for_several_processors_occupies_half_of_them(unit_tasks: Path) -> None:
    with closing(UnitExecutor(make_workers("unit_tasks:run", 3), 4)) as executor:
        pair = executor.submit([[Task(("meet", (unit_tasks, 2)), 4)] for _ in range(2)])
        assert [answer.result(60)[1] for (answer,) in pair] == [[(unit_tasks, 2)]] * 2  # each waits for the other one
        units = executor.submit([[Task(("note", ""), 4)] for _ in range(3)])
        times = sorted(answer.result(60) for (answer,) in units)
        assert times[2][0] >= min(end for _, end in times[:2])


def test_what_is_left_of_a_unit_is_divided_where_there_is_no_other(unit_tasks: Path) -> None:
    one, other = unit_tasks / "one", unit_tasks / "other"
    one.mkdir()
    other.mkdir()
    with closing(UnitExecutor(make_workers("unit_tasks:run", 2), 2, divides=True)) as executor:
        meetings = [[(one, 2), (other, 2), (other, 2)], [(one, 2)]]
        answers = executor.submit([[Task(("meet", meeting)) for meeting in unit] for unit in meetings])
        first, second, third = (answer.result(60)[0] for answer in answers[0])
        assert first == second != third


def test_a_process_that_dies_leaves_what_was_not_taken_from_its_unit(unit_tasks: Path) -> None:
    with closing(UnitExecutor(make_workers("unit_tasks:run", 2), 2, divides=True)) as executor:
        long = [Task(("die once", str(unit_tasks / "died"))), *(Task(("tell", number)) for number in range(6))]
        answers = executor.submit([long, [Task(("tell", "other"))]])
        assert answers[0][0].result(60) == "alive"
        assert [answer.result(60)[1][-1] for answer in answers[0][1:]] == list(range(6))


def test_the_machine_has_processors_and_memory() -> None:
    assert 1 <= count_processors() <= (os.cpu_count() or 1)
    memory = available_memory()
    assert memory is None or memory > 2**20
