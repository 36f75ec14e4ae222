"""A process that has imported what ``python -m pytest`` and ``python -m patchgen_core`` import, and forks such runs.

Most of what a short run takes is imports. The workers of pytest-xdist that a forked session starts are forked as well.
A test that looks at what a run imports, at how Python starts, or at signals to a group of processes starts its own.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import pickle
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import IO, Any, NoReturn

from execnet import gateway_base, gateway_io
from execnet.gateway_io import popen_bootstrapline

from patchgen_core.workers.fork_request import CONNECTIONS, NUMBER, receive_number
from patchgen_core.workers.frames import read_frame, write_frame
from patchgen_core.workers.process import ForkedProcess

SOCKET = "PATCHGEN_TESTS_PYTHON"
"""Variable with the path of the socket of a running server."""
ROOT = Path(__file__).parents[1]
CAN_FORK = sys.platform == "linux"
_START = f"""
import sys
rest = sys.path[1:]
sys.path.insert(0, {str(ROOT)!r})
from tests.python_server import serve
run = serve(int(sys.argv[1]), rest)
del serve, rest
run()
"""
_SECONDS_TO_END = 10.0
_READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_")
_READ_AGAIN = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
_MODULES = ("pytest", "patchgen_core")
_USED_BY_RUNS = (
    "pytest_patchgen.reporter",
    "patchgen_core.report.gate.formats",
    "patchgen_core.cli.main",
    "xdist.remote",
)


@dataclass(frozen=True)
class Start:
    """A process that somebody wants: a command line without the interpreter, and its environment."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


class PythonServer:
    """The process, which is asked by this one and those that it starts, and does not outlive it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="patchgen-tests-")
        path = os.path.join(self._folder.name, "python")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(CONNECTIONS)
            number = listener.fileno()
            command = [sys.executable, "-c", _START, str(number)]
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            pipe, null = subprocess.PIPE, subprocess.DEVNULL
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=null, pass_fds=[number], cwd=ROOT, env=environment
            )
        os.environ[SOCKET] = path

    def close(self) -> None:
        """End the process, once those that it has forked have ended."""
        os.environ.pop(SOCKET, None)
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()


class PythonProcess(ForkedProcess):
    """What the server has forked, as ``subprocess.Popen`` would have it."""

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def run_python(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """``subprocess.run`` of a command that begins with ``python``, with its output captured as text."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
        process = start_python(command, folder, environment, None, output.fileno(), error.fileno())
        if process is None:
            return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        code = process.wait()
        process.close()
        texts = []
        for file in (output, error):
            file.seek(0)
            texts.append(file.read().decode())
        return subprocess.CompletedProcess(list(command), code, *texts)


def start_python(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    stdin: int | None,
    stdout: int,
    stderr: int,
) -> PythonProcess | None:
    """A process that the server forks; None where it has none, or the process would be another if it were started."""
    path = os.environ.get(SOCKET)
    if path is None or not _is_known(command) or _starts_otherwise(environment):
        return None
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    null, here = os.open(os.devnull, os.O_RDONLY), os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        socket.send_fds(connection, [b"\0"], [null if stdin is None else stdin, stdout, stderr, here])
    finally:
        os.close(null)
        os.close(here)
    with connection.makefile("wb") as stream:
        write_frame(stream, Start(tuple(map(str, command[1:])), dict(environment)))
    pid = receive_number(connection)
    assert pid, "the server has ended"
    return PythonProcess(pid, connection, None, None)  # type: ignore[arg-type]


def _is_known(command: Sequence[str]) -> bool:
    return command[0] == sys.executable and _find_code(tuple(map(str, command[1:]))) is not None


def _starts_otherwise(environment: Mapping[str, str]) -> bool:
    names = {name for name in {*environment, *os.environ} if name.startswith(_READ_AT_START)}
    return any(environment.get(name) != os.environ.get(name) for name in names.difference(_READ_AGAIN))


# --- the process itself ----------------------------------------------------------------------------


def serve(number: int, rest: list[str]) -> Callable[[], None]:
    """Fork a process for everybody who asks; returns in each of them, what it is to run.

    Args:
        number: of the descriptor of the socket.
        rest: what comes on ``sys.path`` behind the folders that a process is given.
    """
    listener = socket.socket(fileno=number)
    ready, _, _ = select.select([0, listener], [], [])
    if 0 not in ready:
        _import_everything()
    while True:
        ready, _, _ = select.select([0, listener], [], [])
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, 0 if 0 in ready else os.WNOHANG)[0]:
                pass
        if 0 in ready:  # who started this has closed the pipe
            os._exit(0)
        connection, _ = listener.accept()
        if not os.fork():
            listener.close()
            start = _mind(connection)
            return lambda: _run(start, rest)
        connection.close()


def _import_everything() -> None:
    """Run a session of pytest that has nothing to do: what pytest makes of modules to have their assertions tell more,
    it makes when it imports them."""
    import pytest

    class ImportGate:
        def pytest_sessionstart(self) -> None:
            from tests.conftest import import_gate, keep_compiled

            with keep_compiled():
                import_gate()
                for name in _USED_BY_RUNS:
                    importlib.import_module(name)

    for name in [name for name in sys.modules if name.partition(".")[0] == "patchgen_core"]:
        del sys.modules[name]
    with tempfile.TemporaryDirectory() as folder:
        before = Path.cwd()
        os.chdir(folder)
        pytest.main(["-q", "-pno:randomly", "-pno:anyio", "-pno:cacheprovider"], plugins=[ImportGate()])
        os.chdir(before)
    gc.collect()
    gc.freeze()


def _mind(connection: socket.socket) -> Start:
    """Fork the process that is asked for, and stay until its asker has done with it; returns in the process."""
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 4)
    with connection.makefile("rb") as stream:
        start: Start = pickle.loads(read_frame(stream) or os._exit(1))
    process = os.fork()
    if not process:
        connection.close()
        *streams, folder = descriptors
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        os.fchdir(folder)
        for descriptor in descriptors:
            os.close(descriptor)
        return start
    for descriptor in descriptors:
        os.close(descriptor)
    with contextlib.suppress(OSError):  # the asker has ended
        connection.sendall(NUMBER.pack(process))
    end = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    assert end is not None
    code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
    with contextlib.suppress(OSError):
        connection.sendall(NUMBER.pack(code))
        connection.recv(1)
    os.waitpid(process, 0)
    os._exit(0)


def _find_code(arguments: tuple[str, ...]) -> tuple[str, str, tuple[str, ...]] | None:
    """The option of a command line that names what to run, what it names, and what comes behind; None for others."""
    if arguments[:1] == ("-u",):
        arguments = arguments[1:]
    option, rest = arguments[0][:2], arguments[1:]
    name = arguments[0][2:]
    if not name and rest:
        name, rest = rest[0], rest[1:]
    is_known = (option == "-m" and name in _MODULES) or (option == "-c" and name == popen_bootstrapline)
    return (option, name, rest) if is_known else None


def _run(start: Start, rest: list[str]) -> None:
    """Run what a command line names, in a process that looks as if it had been started with it."""
    code = _find_code(start.arguments)
    assert code is not None
    option, name, arguments = code
    os.environ.clear()
    os.environ.update(start.environment)
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    first = os.getcwd() if option == "-m" else ""
    sys.path[:] = [first, *dict.fromkeys([*map(os.path.abspath, folders), *rest])]
    sys.path_importer_cache.clear()
    from xdist.plugin import _sys_path

    _sys_path[:] = sys.path  # as it was when that was imported, for workers
    sys.argv[:] = [option, *arguments]
    _have_workers_forked()
    try:
        if option == "-m":
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            exec(name, vars(sys.modules["__main__"]))
    except SystemExit as end:
        if not isinstance(end.code, (int, NoneType)):
            raise
        _leave(end.code or 0)
    _leave(0)


def _leave(code: int) -> NoReturn:
    """End this process without what the interpreter does to every object in the end, which would copy its memory."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code & 0xFF)


def _have_workers_forked() -> None:
    class ForkedWorker(gateway_io.Popen2IOMaster):
        def __init__(self, args: list[str], execmodel: Any) -> None:
            reader, stdin = os.pipe()
            stdout, writer = os.pipe()
            process = start_python(args, Path.cwd(), os.environ, reader, writer, 2)
            self.popen = process or subprocess.Popen(args, stdin=reader, stdout=writer)  # type: ignore[assignment]
            os.close(reader)
            os.close(writer)
            outgoing: IO[bytes] = os.fdopen(stdin, "wb")
            gateway_base.Popen2IO.__init__(self, outgoing, os.fdopen(stdout, "rb"), execmodel=execmodel)

    gateway_io.Popen2IOMaster = ForkedWorker  # type: ignore[misc]
