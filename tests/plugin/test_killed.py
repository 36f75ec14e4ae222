"""Runs that are killed or interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patchgen_core.checks.checked_in.compare import fix
from tests.conftest import PATCH, Workspace, generated
from tests.plugin.support import edit, make_several, write_harm

fcntl = pytest.importorskip("fcntl", reason="there are no process groups")
both = pytest.mark.parametrize("workers", ["0", "2"])

LIMIT = 180
KILLER = """
import os
import signal

replace, left = os.replace, int(os.environ["REPLACE"])


def replace_or_die(source, target):
    global left
    if "generated" in os.fspath(target):
        if not left:
            os.killpg(0, signal.SIGKILL)
        left -= 1
    replace(source, target)


if "PYTEST_XDIST_WORKER" in os.environ or os.environ["WORKERS"] == "0":
    os.replace = replace_or_die
"""
"""A conftest.py that kills the run when one of its processes has replaced REPLACE generated files, and is about to
replace another one."""

HANGING = """

import fcntl
import os
import time

file = open(os.environ["STARTED"], "w")
fcntl.flock(file, fcntl.LOCK_EX)
file.write(str(os.getpid()))
file.flush()
time.sleep(600)
"""
"""The end of a module that holds a lock on the file STARTED for as long as its process lives."""


_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _leave_no_process() -> Iterator[None]:
    yield
    while _started:
        process = _started.pop()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def start(work: Workspace, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start pytest in a process group of its own, where an interrupt works also if this run ignores it."""
    without = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:anyio")
    command = [sys.executable, "-m", "pytest", *without, *arguments]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_", "GITHUB_"))}
    started = str(work.root.parent / "started")
    process = subprocess.Popen(
        command,
        cwd=work.root,
        env={**env, "PYTHONPATH": str(work.site), "COLUMNS": "120", "STARTED": started, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    _started.append(process)
    return process


def until(condition: Callable[[], object]) -> bool:
    """Wait for a condition; whether it came true."""
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def texts(work: Workspace) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in work.models.glob("*/generated/patched*")}


def drift_all(work: Workspace) -> tuple[dict[Path, bytes], dict[Path, bytes]]:
    """Write several configs and change all they made; returns what files were and what they are to be."""
    modules = make_several(work)
    new = texts(work)
    for path in modules:
        edit(path)
        path.with_suffix(".diff").write_text("nothing\n")
    return texts(work), new


def is_old_or_new(work: Workspace, old: dict[Path, bytes], new: dict[Path, bytes]) -> bool:
    now = texts(work)
    return now.keys() == new.keys() and all(text in (old[path], new[path]) for path, text in now.items())


def mends_the_rest(work: Workspace, new: dict[Path, bytes]) -> None:
    """The next run ends green, and nothing but the generated files is there."""
    output, _ = (process := start(work, "--patchgen-fix")).communicate(timeout=LIMIT)
    assert process.returncode == 0, output
    assert texts(work) == new
    assert {path for path in work.models.glob("*/generated/*") if path.is_file()} == new.keys()


@pytest.mark.parametrize(
    ("workers", "replaced"), [("0", 1), *(pytest.param("2", n, marks=pytest.mark.slow) for n in (0, 3))]
)
def test_killed_while_replacing(work: Workspace, workers: str, replaced: int) -> None:
    old, new = drift_all(work)
    conftest = work.write("conftest.py", KILLER)
    process = start(work, "--patchgen-fix", "-n", workers, REPLACE=str(replaced), WORKERS=workers)
    process.communicate(timeout=LIMIT)
    assert process.returncode == -signal.SIGKILL
    assert is_old_or_new(work, old, new)
    assert texts(work) != new
    assert (texts(work) == old) == (replaced == 0)
    conftest.unlink()
    mends_the_rest(work, new)


@pytest.mark.parametrize("changed", [1, 8])
@pytest.mark.slow
def test_killed_from_outside(work: Workspace, changed: int) -> None:
    old, new = drift_all(work)
    process = start(work, "--patchgen-fix", "-n", "2")
    assert until(lambda: sum(text != old[path] for path, text in texts(work).items()) >= changed)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=LIMIT)
    assert is_old_or_new(work, old, new)
    mends_the_rest(work, new)


# --- processes -------------------------------------------------------------------------------------


def hang_in_import(work: Workspace, *arguments: str) -> tuple[subprocess.Popen[str], Path]:
    """A run whose import check hangs, and a file with the id of the process that imports, which locks it."""
    module = generated(work)
    module.write_text(module.read_text() + HANGING)
    process = start(work, "--patchgen-checks=import", *arguments)
    started = work.root.parent / "started"
    assert until(lambda: started.exists() and started.read_text())
    return process, started


@pytest.mark.slow
@both
def test_an_interrupt_ends_the_import_and_shows_no_traceback(gated: Workspace, workers: str) -> None:
    process, importing = hang_in_import(gated, "-n", workers)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "Traceback" not in output
    assert "INTERNALERROR" not in output
    assert "1 not run." in output
    assert until(lambda: not is_locked(importing))


@both
@pytest.mark.mostly_slow(1)
def test_a_killed_run_leaves_no_import_behind(gated: Workspace, workers: str) -> None:
    process, importing = hang_in_import(gated, "-n", workers)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=LIMIT)
    is_gone = until(lambda: not is_locked(importing))
    if not is_gone:
        os.killpg(os.getpgid(int(importing.read_text())), signal.SIGKILL)
    assert is_gone


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.slow
def test_a_run_in_several_processes_leaves_none_of_them(gated: Workspace, by: int) -> None:
    gated.config(PATCH, "clean/clean_gpu_patch_gen_config.py")
    fix(gated.check())
    process, importing = hang_in_import(gated, "--patchgen-jobs=2")
    os.killpg(process.pid, by)
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == (pytest.ExitCode.INTERRUPTED if by == signal.SIGINT else -by), output
    assert "Traceback" not in output
    assert until(lambda: not is_locked(importing))


@both
@pytest.mark.slow
def test_an_interrupt_tells_what_did_not_run(gated: Workspace, workers: str) -> None:
    write_harm(gated, "open(os.environ['STARTED'], 'w').close(); time.sleep(600)")
    process = start(gated, "--patchgen", "-n", workers, "--dist=loadfile")
    assert until((gated.root.parent / "started").exists)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "Traceback" not in output
    assert " not run.\n" in output
