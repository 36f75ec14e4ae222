"""A worker that a server has forked is as one that was started; where it would not be, it is started."""

from __future__ import annotations

import os
import platform
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.workers.fork_request import ENVIRONMENT
from patchgen_core.workers.fork_server import ForkServer
from patchgen_core.workers.process import ForkedProcess, warm_up
from patchgen_core.workers.worker import Worker, WorkerDied
from tests.conftest import ROOT
from tests.workers.forking import PREPARATION, is_running, until

SIGACTION = {"x86_64": 13, "aarch64": 134}
"""The number of the system call, which sets what the C library keeps to itself."""

HANDLER = """
import gc, os, random, re, resource, signal, sys, threading, time

def run(code):
    names = {**globals(), "answer": None}
    exec(code, names)
    return names["answer"]
"""
SURROUNDINGS = """
descriptors = {}
for number in os.listdir("/proc/self/fd"):
    try:
        descriptors[number] = re.split("[:#]", os.readlink(f"/proc/self/fd/{number}"))[0]
    except FileNotFoundError:
        pass
umask = os.umask(0)
os.umask(umask)
answer = {
    "environment": dict(os.environ),
    "path": sys.path,
    "arguments": sys.argv,
    "folder": os.getcwd(),
    "descriptors": descriptors,
    "session": os.getsid(0) == os.getpgrp() == os.getpid(),
    "signals": {number: str(signal.getsignal(number)) for number in range(1, 32)},
    "blocked": signal.pthread_sigmask(signal.SIG_BLOCK, []),
    "threads": [thread.name for thread in threading.enumerate()],
    "tasks": len(os.listdir("/proc/self/task")),
    "umask": umask,
    "limits": resource.getrlimit(resource.RLIMIT_NOFILE),
    "collector": gc.isenabled(),
    "streams": [(stream.encoding, stream.errors, stream.fileno()) for stream in (sys.stdin, sys.stdout, sys.stderr)],
    "main": sorted(vars(sys.modules["__main__"])),
}
"""


@pytest.fixture
def handler_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fork_server: ForkServer) -> Path:
    monkeypatch.setenv(ENVIRONMENT, fork_server.folder)
    (tmp_path / "handling.py").write_text(HANDLER, encoding="utf-8")
    return tmp_path


def ask_once(folder: Path, code: str) -> tuple[bool, Any]:
    """Whether a worker of its own was forked, and its answer."""
    with Worker("handling:run", 60, [folder]) as worker:
        answer = worker.ask(code, PREPARATION)
        return isinstance(worker._process, ForkedProcess), answer


# --- what is around it -----------------------------------------------------------------------------


def test_what_is_around_it_is_what_is_around_one_that_was_started(
    handler_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (handler_folder / "elsewhere").mkdir()
    monkeypatch.chdir(handler_folder / "elsewhere")
    monkeypatch.setenv("PYTEST_NEW", "since the server was started")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")  # as ranks in this process leave it
    for name in ("COLUMNS", "LINES"):  # which readline, that pytest imports, sets behind Python's back
        monkeypatch.setenv(name, "100")
    monkeypatch.syspath_prepend("/new/here")
    is_forked, forked = ask_once(handler_folder, SURROUNDINGS)
    with Worker("handling:run", 60, [handler_folder]) as worker:
        started = worker.ask(SURROUNDINGS)
    assert is_forked
    assert [(name, forked[name], value) for name, value in started.items() if forked[name] != value] == []


def test_it_runs_where_its_asker_runs(handler_folder: Path) -> None:
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(every)})
    try:
        answer = ask_once(handler_folder, "answer = os.sched_getaffinity(0)")
    finally:
        os.sched_setaffinity(0, every)
    assert answer == (True, {max(every)})


@pytest.mark.torch
def test_random_numbers_are_its_own(handler_folder: Path) -> None:
    code = "import numpy.random; answer = (random.random(), numpy.random.random(), os.urandom(8))"
    (_, first), (_, second) = (ask_once(handler_folder, code) for _ in range(2))
    assert not set(first) & set(second)


# --- where it is started instead -------------------------------------------------------------------


def change_limit(monkeypatch: pytest.MonkeyPatch, _: Path) -> Callable[[], object]:
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0 if soft else min(hard, 1) % 2**63, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def change_umask(_: pytest.MonkeyPatch, __: Path) -> Callable[[], object]:
    before = os.umask(0o27)
    return lambda: os.umask(before)


def ignore_signal(_: pytest.MonkeyPatch, __: Path) -> Callable[[], object]:
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    return lambda: signal.signal(signal.SIGUSR2, before)


def change_variable(monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")


def unset_variable(monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    monkeypatch.delenv("HOME")


def shadow_module(_: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "_pydecimal.py").write_text("")
    (folder / "decimal.py").write_text("other = True")


def bring_absent_module(_: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "acme_accelerator.py").write_text("")


def bring_site(_: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "sitecustomize.py").write_text("")


def change_interpreter(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))


@pytest.mark.parametrize(
    "change",
    [
        change_variable,
        unset_variable,
        shadow_module,
        bring_absent_module,
        bring_site,
        change_interpreter,
        change_umask,
        change_limit,
        ignore_signal,
    ],
)
@pytest.mark.mostly_slow(4)
def test_one_that_would_not_be_the_same_is_started(
    handler_folder: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch, Path], Any]
) -> None:
    restore = change(monkeypatch, handler_folder)
    try:
        assert ask_once(handler_folder, "answer = os.getpid()")[0] is False
    finally:
        if restore is not None:
            restore()


def test_signals_that_the_c_library_handles_itself_make_no_difference() -> None:
    """It does from the first thread on, and whoever started the tests may have had them ignored until then."""
    code = f"""
import ctypes
from patchgen_core.workers.fork_request import describe_process

before = describe_process()
ignored = (ctypes.c_ulong * 4)(1)
assert ctypes.CDLL(None).syscall({SIGACTION[platform.machine()]}, 33, ctypes.byref(ignored), None, 8) == 0
assert "000001" in [line for line in open("/proc/self/status") if line.startswith("SigIgn")][0]
assert describe_process() == before
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_without_a_preparation_or_for_another_one_it_is_started(handler_folder: Path) -> None:
    for preparation in ("", "decimal:Decimal"):
        with Worker("handling:run", 60, [handler_folder]) as worker:
            assert worker.ask("answer = 'decimal' in sys.modules", preparation) is False


def test_a_preparation_that_fails_is_nobodys_error(handler_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT)
    failing = "tests.workers.forking:fail"
    with ForkServer({failing: ""}), Worker("handling:run", 60, [handler_folder]) as worker:
        assert worker.ask("answer = 1", failing) == 1
        assert not isinstance(worker._process, ForkedProcess)
    assert ENVIRONMENT not in os.environ


@pytest.fixture
def chain(handler_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    """A server with two preparations that go on from a third, and one that goes on from what fails."""
    (handler_folder / "steps.py").write_text(STEPS, encoding="utf-8")
    monkeypatch.syspath_prepend(handler_folder)
    monkeypatch.chdir(handler_folder)
    monkeypatch.delenv(ENVIRONMENT)
    steps = {"steps:first": "", "steps:second": "steps:first", "steps:other": "steps:first", "steps:fail": ""}
    with ForkServer({**steps, "steps:after_failing": "steps:fail"}) as server:
        yield server


STEPS = """
import os
done = []

def first():
    import decimal
    done.append(("first", os.getpid()))

def second():
    import fractions
    os.environ["STEPS_SECOND"] = "yes"
    done.append(("second", os.getpid()))

def other():
    open("others", "a").write("done ")
    done.append(("other", os.getpid()))

def fail():
    raise ImportError("no torch")

def after_failing():
    done.append(("after_failing", os.getpid()))
"""
DONE = "import steps; answer = steps.done, os.environ.get('STEPS_SECOND')"


@pytest.mark.usefixtures("chain")
def test_a_preparation_goes_on_from_what_another_one_has_done(handler_folder: Path) -> None:
    answers = {}
    for name in ("second", "other", "first", "second"):
        with Worker("handling:run", 60, [handler_folder]) as worker:
            answers[name] = worker.ask(DONE, f"steps:{name}")
            assert isinstance(worker._process, ForkedProcess)
    ((_, pid),), _ = answers["first"]
    (first, (name, _)), variable = answers["second"]
    assert (first, name, variable) == (("first", pid), "second", "yes")
    (first, (name, _)), variable = answers["other"]
    assert (first, name, variable) == (("first", pid), "other", None)


def test_what_is_warmed_up_is_done_once_and_before_anybody_asks(
    handler_folder: Path, request: pytest.FixtureRequest
) -> None:
    note = handler_folder / "others"
    assert not warm_up("steps:other")
    request.getfixturevalue("chain")
    assert warm_up("steps:other")
    assert until(note.exists)
    with Worker("handling:run", 60, [handler_folder]) as worker:
        assert len(worker.ask(DONE, "steps:other")[0]) == 2
        assert isinstance(worker._process, ForkedProcess)
    assert note.read_text() == "done "


@pytest.mark.usefixtures("chain")
def test_what_another_preparation_found_counts_for_the_one_that_goes_on_from_it(handler_folder: Path) -> None:
    (handler_folder / "decimal.py").write_text("other = True")
    with Worker("handling:run", 60, [handler_folder]) as worker:
        assert worker.ask("answer = 1", "steps:second") == 1
        assert not isinstance(worker._process, ForkedProcess)


@pytest.mark.usefixtures("chain")
def test_what_was_written_over_since_it_was_imported_is_imported_anew(handler_folder: Path) -> None:
    """As by an upgrade of a package, while somebody watches a project."""
    for is_forked in (True, False):
        with Worker("handling:run", 60, [handler_folder]) as worker:
            assert worker.ask("import decimal; answer = 1", "steps:second") == 1
            assert isinstance(worker._process, ForkedProcess) is is_forked
        (handler_folder / "steps.py").write_text(f"{STEPS}\n", encoding="utf-8")


@pytest.mark.usefixtures("chain")
def test_nothing_goes_on_from_a_preparation_that_fails(handler_folder: Path) -> None:
    with Worker("handling:run", 60, [handler_folder]) as worker:
        assert worker.ask("answer = 1", "steps:after_failing") == 1
        assert not isinstance(worker._process, ForkedProcess)


# --- many, and the end -----------------------------------------------------------------------------


@pytest.mark.slow
def test_twenty_at_once_are_forked_and_leave_nothing(handler_folder: Path) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(ask_once, [handler_folder] * 20, ["answer = (os.getpid(), os.getppid())"] * 20))
    assert all(is_forked for is_forked, _ in answers)
    workers, minders = ({pids[place] for _, pids in answers} for place in (0, 1))
    assert len(workers | minders) == 40
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert until(lambda: not any(map(is_running, minders)))


@pytest.fixture
def own_server(handler_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    monkeypatch.delenv(ENVIRONMENT)
    with ForkServer({PREPARATION: ""}) as server:
        yield server


def processes_of(server: ForkServer) -> list[int]:
    """The processes of a server: itself, and those that fork and look after workers."""
    assert server._process is not None
    stats = {path: path.read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*/stat")}
    return [int(path.parent.name) for path, fields in stats.items() if int(fields[3]) == server._process.pid]


def test_a_worker_outlives_the_server_and_the_next_one_is_started(
    handler_folder: Path, own_server: ForkServer
) -> None:
    with Worker("handling:run", 60, [handler_folder]) as worker:
        pid, minder = worker.ask("answer = (os.getpid(), os.getppid())", PREPARATION)
        for process in set(processes_of(own_server)) - {minder}:
            os.kill(process, signal.SIGKILL)
        assert worker.ask("answer = os.getpid()", PREPARATION) == pid
        with pytest.raises(WorkerDied, match="its process has ended with exit code 3"):
            worker.ask("os._exit(3)", PREPARATION)
        worker.ask("answer = 1", PREPARATION)
        assert not isinstance(worker._process, ForkedProcess)


def test_a_worker_whose_minder_is_killed_does_its_work_and_is_replaced(
    handler_folder: Path, own_server: ForkServer
) -> None:
    with Worker("handling:run", 60, [handler_folder]) as worker:
        pid = worker.ask("answer = os.getpid()", PREPARATION)
        with pytest.raises(WorkerDied, match=r"its process has ended$"):
            worker.ask("os.kill(os.getppid(), signal.SIGKILL); os._exit(3)", PREPARATION)
        assert worker.ask("answer = os.getpid()", PREPARATION) != pid
        assert isinstance(worker._process, ForkedProcess)


STARTER = """
import sys
from patchgen_core.workers.fork_server import ForkServer
from patchgen_core.workers.worker import Worker

with ForkServer({sys.argv[2]: ""}) as server, Worker("handling:run", 60, [sys.argv[1]]) as worker:
    pids = worker.ask("answer = (os.getpid(), os.getppid())", sys.argv[2])
    print(server.folder, server._process.pid, *pids, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("is_killed", [True, False])
def test_it_ends_with_who_started_it_and_leaves_no_file(
    handler_folder: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    monkeypatch.delenv(ENVIRONMENT)
    command = [sys.executable, "-c", STARTER, str(handler_folder), PREPARATION]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdin is not None
        assert starter.stdout is not None
        folder, *numbers = starter.stdout.readline().split()
        pids = [int(number) for number in numbers]
        assert all(map(is_running, pids))
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        if is_killed:
            starter.kill()
        else:
            starter.stdin.close()
    assert until(lambda: not any(map(is_running, pids)) and not Path(folder).exists())


def test_a_server_of_another_user_is_not_asked(handler_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    assert ask_once(handler_folder, "answer = 1") == (False, 1)
