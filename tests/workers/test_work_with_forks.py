"""Work that a process and forks of it share out: all is done once, and nothing of the forks is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.workers.forks import count_forks
from tests.conftest import ROOT
from tests.workers.forking import is_running, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a process is forked on Linux alone")

START = """
import json, os, signal, sys, tempfile, threading, time
from pathlib import Path
from patchgen_core.workers.forks import count_forks, work_with_forks

own = os.getpid()
seen = Path(sys.argv[1])

def wait_for(path):
    while not path.exists():
        time.sleep(0.01)

def take_turns(numbers):
    # nobody has all of the parts
    taken = []
    for number in numbers:
        taken.append(number)
        (seen / str(os.getpid())).touch()
        while len(list(seen.iterdir())) < 2:
            time.sleep(0.01)
    return os.getpid(), taken

"""


def start(code: str, folder: Path, **more: Any) -> subprocess.Popen[str]:
    """A process that runs code; what it notes goes into ``seen``, and its temporary files into ``tmp``."""
    for name in ("seen", "tmp"):
        (folder / name).mkdir()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp")}
    command = [sys.executable, "-c", START + code, str(folder / "seen")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=env, text=True, **pipes, **more)


def run(code: str, folder: Path) -> tuple[int, str, str]:
    """How that process ended, and what it wrote."""
    process = start(code, folder)
    out, error = process.communicate(timeout=60)
    return process.returncode, out, error


def find_fork(folder: Path, process: subprocess.Popen[str]) -> int:
    """The fork that noted itself."""
    (fork,) = {int(path.name) for path in (folder / "seen").iterdir()} - {process.pid}
    return fork


def is_anything_left(folder: Path, process: subprocess.Popen[str]) -> bool:
    """Whether the fork is running, or a temporary file is there."""
    return is_running(find_fork(folder, process)) or any((folder / "tmp").iterdir())


def test_every_part_is_done_once(tmp_path: Path) -> None:
    code, out, error = run("print(json.dumps([own, work_with_forks(500, 1, take_turns)]))", tmp_path)
    assert (code, error) == (0, "")
    own, values = json.loads(out)
    (first, ours), (other, theirs) = values
    assert first == own != other
    assert ours
    assert theirs
    assert sorted(ours + theirs) == list(range(500))
    assert not list((tmp_path / "tmp").iterdir())


def test_all_is_done_here_where_no_fork_is_wanted(tmp_path: Path) -> None:
    code, out, _ = run("print(work_with_forks(3, 0, lambda numbers: (own == os.getpid(), *numbers)))", tmp_path)
    assert (code, out) == (0, "[(True, 0, 1, 2)]\n")


@pytest.mark.parametrize(
    "end",
    ["os._exit(3)", "os._exit(0)", "os.kill(os.getpid(), 9)", "raise ValueError", "sys.exit()", "return lambda: 0"],
    ids=["ends", "ends well", "killed", "raises", "exits", "no pickle"],
)
def test_fork_that_dies_has_no_value(end: str, tmp_path: Path) -> None:
    work = f"""
def work(numbers):
    if os.getpid() != own:
        next(numbers)
        (seen / "taken").touch()
        {end}
    wait_for(seen / "taken")
    return list(numbers)

print("said once")
print(json.dumps(work_with_forks(9, 1, work)))
"""
    code, out, error = run(work, tmp_path)
    assert (code, error) == (0, "")
    said, values = out.splitlines()
    assert said == "said once"
    (ours,) = json.loads(values)
    assert len(ours) == 8, "the part that the fork took is undone"
    assert not list((tmp_path / "tmp").iterdir())


def test_what_a_fork_prints_is_printed_once_and_in_the_end(tmp_path: Path) -> None:
    work = """
def work(numbers):
    value = take_turns(numbers)
    print("the fork \\udc80" if os.getpid() != own else "this process", file=sys.stderr)

print("before")
work_with_forks(9, 1, work)
print("after")
"""
    assert run(work, tmp_path) == (0, "before\nafter\n", "this process\nthe fork \\udc80\n")


@pytest.mark.parametrize("failure", ["raise KeyError('here')", "os.kill(own, signal.SIGINT)", "sys.exit(7)"])
def test_nothing_of_a_fork_is_left_where_the_work_here_ends_early(failure: str, tmp_path: Path) -> None:
    work = f"""
def work(numbers):
    if os.getpid() != own:
        tempfile.mkdtemp()
        (seen / str(os.getpid())).touch()
        time.sleep(600)
    while not list(seen.iterdir()):
        time.sleep(0.01)
    {failure}

work_with_forks(9, 1, work)
"""
    process = start(work, tmp_path)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert not is_anything_left(tmp_path, process)


def test_interruption_of_both_ends_both(tmp_path: Path) -> None:
    work = """
def work(numbers):
    (seen / str(os.getpid())).touch()
    time.sleep(600)

try:
    work_with_forks(9, 1, work)
except KeyboardInterrupt:
    print("interrupted")
"""
    process = start(work, tmp_path, start_new_session=True)
    assert until(lambda: len(list((tmp_path / "seen").iterdir())) == 2)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60) == ("interrupted\n", "")
    assert not is_anything_left(tmp_path, process)


def test_fork_takes_no_part_when_its_process_is_gone(tmp_path: Path) -> None:
    work = """
def work(numbers):
    for number in numbers:
        (seen / str(os.getpid())).touch()
        if os.getpid() != own:
            (seen.parent / f"taken {number}").touch()
            wait_for(seen.parent / "go on")
        else:
            time.sleep(600)

work_with_forks(9, 1, work)
"""
    process = start(work, tmp_path)
    assert until(lambda: len(list((tmp_path / "seen").iterdir())) == 2)
    fork = find_fork(tmp_path, process)
    process.kill()
    process.wait()
    (tmp_path / "go on").touch()
    process.communicate(timeout=60)
    assert until(lambda: not is_running(fork))
    assert len(list(tmp_path.glob("taken *"))) == 1


def test_system_that_has_no_further_process_leaves_all_to_this_one(tmp_path: Path) -> None:
    work = """
def refuse():
    raise BlockingIOError(11, "Resource temporarily unavailable")

os.fork = refuse
print(work_with_forks(3, 1, list))
"""
    assert run(work, tmp_path) == (0, "[[0, 1, 2]]\n", "")


def test_forks_of_a_process_that_buries_no_children(tmp_path: Path) -> None:
    work = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print(sorted(number for _, numbers in work_with_forks(9, 1, take_turns) for number in numbers))
"""
    assert run(work, tmp_path) == (0, f"{list(range(9))}\n", "")


def test_number_of_forks(tmp_path: Path) -> None:
    work = """
processors = len(os.sched_getaffinity(0))
print([count_forks(parts) == min(parts, processors, 8) - 1 for parts in (1, 2, 3, 100)], count_forks(0))
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
print(count_forks(100))
"""
    assert run(work, tmp_path) == (0, "[True, True, True, True] 0\n0\n", "")


def test_process_with_threads_is_not_forked(tmp_path: Path) -> None:
    work = """
threading.Thread(target=wait_for, args=(seen / "end",)).start()
print(count_forks(100))
(seen / "end").touch()
"""
    assert run(work, tmp_path) == (0, "0\n", "")


def test_nothing_is_forked_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert count_forks(100) == 0
