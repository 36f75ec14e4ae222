"""Units of tasks that processes of a Ray cluster do, whose nodes die meanwhile."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patchgen_core.errors import PatchgenError
from patchgen_core.workers.addresses import check_cluster
from patchgen_core.workers.cluster import Cluster
from patchgen_core.workers.node import describe_difference, move_paths
from patchgen_core.workers.processes import UnitExecutor
from patchgen_core.workers.sent_folders import pack_folder
from patchgen_core.workers.units import Task
from patchgen_core.workers.worker import WorkerDied
from tools.ray_cluster import LocalCluster, start_cluster

HANDLER = """
import os
import time
from pathlib import Path

from patchgen_core.errors import PatchgenError


def run(request):
    kind, value = request
    with open(value, "a") as file:
        print(os.getpid(), file=file)
    if kind == "die":
        os._exit(3)
    if kind == "refuse":
        raise PatchgenError("not here")
    if kind == "hang":
        time.sleep(600)
    if kind == "wait":
        time.sleep(3)
    return os.getcwd(), Path("cluster_tasks.py").is_file(), f"{os.path.abspath('cluster_tasks.py')}, line 3"
"""


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    assert condition()


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def processes_of(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()] if log.exists() else []


@pytest.fixture(scope="module")
def local() -> Iterator[LocalCluster]:
    """Two nodes."""
    with start_cluster(2) as cluster:
        yield cluster


@pytest.fixture
def executor(local: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UnitExecutor]:
    """Two processes, started from a folder that nodes get a copy of."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "cluster_tasks.py").write_text(HANDLER)
    monkeypatch.setenv("RAY_ADDRESS", local.address)
    monkeypatch.chdir(project)
    cluster = Cluster("ray", project)
    executor = UnitExecutor([cluster.process("cluster_tasks:run", {"CPU": 1.0}) for _ in range(2)], 8)
    yield executor
    executor.close()
    cluster.close()


@pytest.mark.slow
def test_tasks_run_in_copies_of_the_folder_whose_paths_come_back_as_here(
    executor: UnitExecutor, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    answers = executor.submit([[Task(("tell", str(log)))] * 2, [Task(("tell", str(log)))]])
    here = tmp_path / "project"
    for answer in (answer for unit in answers for answer in unit):
        assert answer.result(120) == (str(here), True, f"{here / 'cluster_tasks.py'}, line 3")
    (refuses,) = executor.submit([[Task(("refuse", str(log)))]])[0]
    with pytest.raises(PatchgenError, match="not here"):
        refuses.result(60)


@pytest.mark.slow
def test_what_a_dead_node_was_at_runs_again_on_another(
    executor: UnitExecutor, local: LocalCluster, tmp_path: Path
) -> None:
    logs = [tmp_path / f"log{number}" for number in range(4)]
    answers = executor.submit([[Task(("wait", str(log)))] for log in logs])
    until(lambda: sum(bool(processes_of(log)) for log in logs) == 2)
    local.kill_node()
    assert len([answer.result(120) for unit in answers for answer in unit]) == 4
    assert sorted(len(processes_of(log)) for log in logs) == [1, 1, 1, 2]
    local.add_node()


@pytest.mark.slow
def test_a_task_that_ends_two_processes_is_told_and_the_rest_goes_on(executor: UnitExecutor, tmp_path: Path) -> None:
    log = tmp_path / "log"
    dies, last = executor.submit([[Task(("die", str(log))), Task(("tell", str(tmp_path / "last")))]])[0]
    with pytest.raises(WorkerDied, match="its process on the cluster has ended") as caught:
        dies.result(120)
    assert "exit" in caught.value.output
    assert len(set(processes_of(log))) == 2
    assert last.result(60)[1] is True


class FailsOnce:
    """What is read as some bytes, but for the first time, when that raises."""

    def __init__(self, mark: Path, data: bytes) -> None:
        self._mark, self._data = str(mark), data

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        mark = f"open({self._mark!r}, 'a').write('x')"
        is_first = f"not __import__('os').path.exists({self._mark!r})"
        return eval, (f"({mark}, 1 / 0) if {is_first} else {self._data!r}",)


@pytest.mark.slow
def test_a_node_that_cannot_get_the_project_at_first_takes_part(
    local: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, release, mark = tmp_path / "project", tmp_path / "release", tmp_path / "mark"
    for folder in (project, release):
        folder.mkdir()
    (project / "cluster_tasks.py").write_text(HANDLER)
    (release / "more.py").write_text("")
    monkeypatch.setenv("RAY_ADDRESS", local.address)
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(release)
    cluster = Cluster("ray", project, (), {release: ("more.py",)})
    try:
        put = importlib.import_module("ray").put
        cluster._archives[str(release)] = [put(FailsOnce(mark, pack_folder(release, ("more.py",))))]
        executor = UnitExecutor([cluster.process("cluster_tasks:run", {"CPU": 1.0})], 8)
        (answer,) = executor.submit([[Task(("tell", str(tmp_path / "log")))]])[0]
        assert answer.result(120)[1] is True
        assert mark.read_text() == "x"
        executor.close()
    finally:
        cluster.close()


@pytest.mark.slow
def test_closing_ends_what_runs_on_the_cluster(executor: UnitExecutor, tmp_path: Path) -> None:
    logs = [tmp_path / f"log{number}" for number in range(2)]
    executor.submit([[Task(("hang", str(log)))] for log in logs])
    until(lambda: all(map(processes_of, logs)))
    executor.close()
    until(lambda: not any(is_running(process) for log in logs for process in processes_of(log)))


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    for address in ("ray", "ray://localhost:1"):
        with pytest.raises(PatchgenError, match=f"nothing answers at '.*' for the Ray cluster '{address}'"):
            Cluster(address, tmp_path)


def test_addresses() -> None:
    assert [check_cluster("--on", text) for text in (None, "ray", "ray://head:10001")] == [
        "",
        "ray",
        "ray://head:10001",
    ]
    for wrong in ("", "rey", "head:10001", "ray://"):
        with pytest.raises(PatchgenError, match="--on takes the address of a Ray cluster"):
            check_cluster("--on", wrong)


def test_paths_move_with_their_folder_and_not_with_its_neighbours() -> None:
    value = {Path("/a/b/c"): ("at '/a/b/c.py', line 3", "/a/b", "/a/bc", "/a/b-c/d"), "x": [frozenset({"/a/b"}), 3]}
    assert move_paths(value, {"/a/b": "/n"}) == {
        Path("/n/c"): ("at '/n/c.py', line 3", "/n", "/a/bc", "/a/b-c/d"),
        "x": [frozenset({"/n"}), 3],
    }


def test_nodes_with_other_packages_are_refused() -> None:
    assert describe_difference("far", {"torch": "2.0"}, {"torch": "2.0"}) is None
    other = describe_difference("far", {"torch": "2.1"}, {"torch": "2.0"})
    assert other is not None
    assert other.message == "the node 'far' has torch 2.1, and here is 2.0"
    absent = describe_difference("far", {}, {"torch": "2.0"})
    assert absent is not None
    assert absent.message == "the node 'far' has no torch, and here is 2.0"
