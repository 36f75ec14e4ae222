"""A worker answers, and whatever takes it down is told to the one that asked and is not the end: where it was started
as a process of its own, and where a server has forked it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.workers.fork_request import ENVIRONMENT
from patchgen_core.workers.fork_server import ForkServer
from patchgen_core.workers.phases import take
from patchgen_core.workers.process import ForkedProcess, WorkerProcess
from patchgen_core.workers.worker import Worker, WorkerDied
from tests.workers.forking import PREPARATION, is_running, until

HANDLER = """
import os, signal, sys, time
from fractions import Fraction
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.workers.phases import phase

def run(code):
    names = {**globals(), "answer": None}
    exec(code, names)
    return names["answer"]
"""


class PreparedWorker(Worker):
    """A worker whose every request begins with the preparation of the tests' fork server."""

    def tell(self, request: object, preparation: str = PREPARATION) -> None:
        super().tell(request, preparation)

    def ask(self, request: object, preparation: str = PREPARATION) -> Any:
        return super().ask(request, preparation)

    def _running(self, preparation: str) -> WorkerProcess:
        process = super()._running(preparation)
        assert isinstance(process, ForkedProcess) == bool(os.environ[ENVIRONMENT])
        return process


@pytest.fixture(params=["started", "forked"])
def worker(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, fork_server: ForkServer
) -> Iterator[Worker]:
    monkeypatch.setenv(ENVIRONMENT, fork_server.folder if request.param == "forked" else "")
    (tmp_path / "handling.py").write_text(HANDLER, encoding="utf-8")
    with PreparedWorker("handling:run", 30, [tmp_path], output_kept=20) as worker:
        yield worker


def pid_of(worker: Worker) -> int:
    pid = worker.ask("answer = os.getpid()")
    assert isinstance(pid, int)
    return pid


# --- answers ---------------------------------------------------------------------------------------


def test_objects_are_answered_as_they_are(worker: Worker) -> None:
    problem = Problem("wrong", Location("/a.py", 3))
    assert worker.ask("answer = {('a', 1): Problem('wrong', Location('/a.py', 3))}") == {("a", 1): problem}


def test_what_is_printed_is_no_answer_and_there_is_nothing_to_read(worker: Worker) -> None:
    code = "print('no'); os.write(1, b'no'); os.system('echo no; cat'); answer = sys.stdin.read()"
    assert worker.ask(code) == ""


def test_problems_of_the_handler_are_raised_here(worker: Worker) -> None:
    pid = pid_of(worker)
    raised = "raise PatchgenError.from_problems([Problem('one', Location('/a.py', 3), 'do'), Problem('two')])"
    with pytest.raises(PatchgenError) as caught:
        worker.ask(raised)
    assert caught.value.problems == (Problem("one", Location("/a.py", 3), "do"), Problem("two"))
    assert pid_of(worker) == pid


def test_any_other_exception_ends_the_worker_and_is_told(worker: Worker) -> None:
    with pytest.raises(WorkerDied, match="its process has ended with exit code 1") as caught:
        worker.ask("1 / 0")
    assert caught.value.output.endswith("division by zero\n")


def test_an_answer_imports_nothing_here(worker: Worker) -> None:
    assert "wave" not in sys.modules
    with pytest.raises(WorkerDied, match=r"its answer cannot be read: 'wave', whose 'Wave_read' it has"):
        worker.ask("import wave; answer = wave.Wave_read")
    assert "wave" not in sys.modules
    assert worker.ask("answer = 1") == 1


def test_seconds_are_counted_where_they_were_waited_for(worker: Worker) -> None:
    pid_of(worker)
    take()
    worker.ask("with phase('working'): time.sleep(0.05)")
    assert take()["working"] >= 0.05


# --- what it can import ----------------------------------------------------------------------------


def test_no_folder_inside_a_package_is_on_its_path(worker: Worker, tmp_path: Path) -> None:
    path = worker.ask("answer = sys.path")
    assert path == list(dict.fromkeys([str(tmp_path), *map(os.path.abspath, sys.path)]))
    assert not any((Path(folder) / "__init__.py").exists() for folder in path)


def test_every_request_finds_the_path_of_the_one_that_asks(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    worker.ask("sys.path.append('/left/behind')")
    monkeypatch.syspath_prepend("/new/here")
    path = worker.ask("answer = sys.path")
    assert "/new/here" in path
    assert "/left/behind" not in path


def test_modules_of_the_working_directory_do_not_stand_in_for_pythons(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    for name in ("pickle", "queue", "faulthandler"):
        (tmp_path / f"here/{name}.py").write_text("raise SystemExit('not me')")
    monkeypatch.chdir(tmp_path / "here")
    assert worker.ask("answer = os.getcwd()") == str(tmp_path / "here")


# --- how it ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("os.kill(os.getpid(), signal.SIGTERM)", "its process has ended by SIGTERM"),
        ("os.kill(os.getpid(), 37)", "its process has ended by signal 37"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "its process has ended by SIGKILL, as when memory runs out"),
        ("os._exit(0)", "its process has ended with exit code 0"),
        ("sys.exit(4)", "its process has ended with exit code 4"),
    ],
)
@pytest.mark.mostly_slow(2)
def test_how_it_ended_and_its_last_output_are_told(worker: Worker, code: str, how: str) -> None:
    first = pid_of(worker)
    with pytest.raises(WorkerDied) as caught:
        worker.ask(f"print('a' * 30 + 'the end', file=sys.stderr); {code}")
    assert (caught.value.how, caught.value.output) == (how, f"{'a' * 12}the end\n")
    assert pid_of(worker) != first


def test_one_that_is_late_is_killed_with_its_children_and_tells_what_it_did(worker: Worker, tmp_path: Path) -> None:
    pid_of(worker)
    worker.time_limit, worker.output_kept = 0.2, 4000
    note = tmp_path / "pid"
    fork = f"pid = os.fork(); pid and open({str(note)!r}, 'w').write(str(pid)); time.sleep(600)"
    with pytest.raises(WorkerDied) as caught:
        worker.ask(fork)
    assert caught.value.how == "no answer within 0.2 s"
    assert 'handling.py", line 9 in run' in caught.value.output
    assert until(lambda: not is_running(int(note.read_text())))


SCRATCH = """
import tempfile
from patchgen_core.workers.scratch import scratch_folder
answer = tempfile.mkdtemp(dir=scratch_folder())
"""


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), signal.SIGKILL)", "time.sleep(600)"])
@pytest.mark.mostly_slow(4)
def test_it_leaves_no_folder_of_its_own_behind(worker: Worker, end: str) -> None:
    folder = Path(worker.ask(SCRATCH))
    assert folder.is_dir()
    worker.time_limit = 0.2
    if end:
        with pytest.raises(WorkerDied):
            worker.ask(end)
    worker.close()
    assert not folder.exists()
    assert not folder.parent.exists()


def test_a_crash_tells_what_it_did(worker: Worker) -> None:
    worker.output_kept = 4000
    with pytest.raises(WorkerDied, match="SIGSEGV") as caught:
        worker.ask("import ctypes; ctypes.string_at(0)")
    assert "Fatal Python error: Segmentation fault" in caught.value.output
    assert 'handling.py", line 9 in run' in caught.value.output


def test_answers_to_what_is_told_are_skipped(worker: Worker) -> None:
    for number in (1, 2):
        worker.tell(f"os.number = {number}")
    assert worker.ask("answer = 10 * os.number") == 20
    assert worker.ask("answer = 3") == 3


def test_one_that_dies_of_what_it_is_told_is_not_the_end(worker: Worker) -> None:
    worker.tell("print('why', file=sys.stderr); os._exit(3)")
    try:
        answer, told = worker.ask("answer = 1"), ("", "")  # it had ended before it was asked
    except WorkerDied as error:
        answer, told = 1, (error.how, error.output)
    assert (answer, told) in [(1, ("", "")), (1, ("its process has ended with exit code 3", "why\n"))]
    assert worker.ask("answer = 2") == 2


PARENT = """
import sys
from patchgen_core.workers.worker import Worker

with Worker("handling:run", 600, [sys.argv[1]]) as worker:
    worker.ask(sys.argv[2], sys.argv[3])
"""


def test_it_dies_with_the_process_that_asks_and_leaves_nothing(worker: Worker, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    code = f"""
    import tempfile
    from patchgen_core.workers.scratch import scratch_folder
    folder = tempfile.mkdtemp(dir=scratch_folder())
    child = os.fork()
    if child:
        open({str(note)!r}, 'w').write(f'{{os.getpid()}} {{child}} {{folder}}')
    while True:
        pass
    """
    parent = subprocess.Popen([sys.executable, "-c", PARENT, tmp_path, textwrap.dedent(code), PREPARATION])
    assert until(lambda: note.exists() and len(note.read_text().split()) == 3)
    *numbers, folder = note.read_text().split()
    pids = [*map(int, numbers)]
    assert Path(folder).is_dir()
    assert all(map(is_running, pids))
    parent.kill()
    parent.wait()
    assert until(lambda: not any(map(is_running, pids)))
    assert not Path(folder).parent.exists()
