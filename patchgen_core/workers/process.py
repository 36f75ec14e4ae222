"""Processes with pipes to their standard input and from their standard output: started, or forked from a server."""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
from typing import IO, Protocol

from patchgen_core.workers.fork_request import (
    ENVIRONMENT,
    NUMBER,
    ForkRequest,
    describe_process,
    is_own_user,
    receive_number,
    socket_path,
)
from patchgen_core.workers.frames import write_frame
from patchgen_core.workers.processors import list_processors

_START = """
import sys
handler, *sys.path = sys.argv[1:]
del sys.argv[1:]
from patchgen_core.workers.loop import serve
serve(handler)
"""
END_UNKNOWN = 256
"""The exit code of a process of which nobody knows how it ended: more than any that there is."""
_SECONDS_TO_FORK = 120.0  # in which a server does its preparation
_SECONDS_TO_BURY = 5.0


class WorkerProcess(Protocol):
    """A process that leads a group of its own."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def poll(self) -> int | None:
        """Its exit code, less than zero for a signal; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended; a subprocess.TimeoutExpired when that takes too long."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal."""

    def close(self) -> None:
        """Leave its number to others, once it has ended."""


class ForkedProcess:
    """A process that a server has forked.

    Its number stays its own until :meth:`close`, even after it has ended.
    """

    def __init__(self, pid: int, connection: socket.socket, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdin: IO[bytes] | None = stdin
        self.stdout: IO[bytes] | None = stdout
        self._connection = connection

    def poll(self) -> int | None:
        """Its exit code, less than zero for a signal; None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended; a subprocess.TimeoutExpired when that takes too long."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            if not selector.select(timeout):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        code = receive_number(self._connection, socket.MSG_PEEK)  # another thread may wait as well
        return END_UNKNOWN if code is None else code

    def send_signal(self, sig: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, sig)

    def close(self) -> None:
        """Leave its number to others; it has ended."""
        with contextlib.suppress(OSError):
            self._connection.settimeout(_SECONDS_TO_BURY)
            self._connection.shutdown(socket.SHUT_WR)
            while self._connection.recv(NUMBER.size):
                pass
        self._connection.close()


class StartedProcess(subprocess.Popen[bytes]):
    """A process of an interpreter of its own."""

    def close(self) -> None:
        """Nothing: its number is others' once it has been waited for."""


def start_process(handler: str, path: list[str], error: int, preparation: str = "", folder: str = "") -> WorkerProcess:
    """A process that enters :func:`~patchgen_core.workers.loop.serve`: forked where there is a server for that, and
    what it forks would be what is started.

    Args:
        handler: ``package.module:function`` of what answers its requests.
        path: its ``sys.path``.
        error: the descriptor of its standard error.
        preparation: ``package.module:function`` of what it begins with in any case; empty for nothing.
        folder: of the server's sockets; empty for the server that the environment names.
    """
    process = fork_process(handler, path, error, preparation, folder)
    if process is not None:
        return process
    command = [sys.executable, "-c", _START, handler, *path]
    pipe = subprocess.PIPE
    return StartedProcess(command, stdin=pipe, stdout=pipe, stderr=error, start_new_session=True)


def fork_process(
    handler: str, path: list[str], error: int, preparation: str, folder: str = ""
) -> ForkedProcess | None:
    """Such a process, forked from a server; None where there is none, or what it forks would not be what is started
    here."""
    folder = folder or os.environ.get(ENVIRONMENT, "")
    if not folder or not preparation:
        return None
    request = ForkRequest(handler, tuple(path), dict(os.environ), describe_process(), list_processors())
    with contextlib.ExitStack() as stack:
        try:
            connection = stack.enter_context(socket.socket(socket.AF_UNIX))
            connection.settimeout(_SECONDS_TO_FORK)
            connection.connect(socket_path(folder, preparation))
            process = _fork(connection, request, error, stack) if is_own_user(connection) else None
        except OSError:  # the server has ended
            return None
        if process is not None:
            stack.pop_all()
        return process


def warm_up(preparation: str) -> bool:
    """Have the fork server that the environment names do a preparation, and do not wait for it; whether there is such
    a server."""
    folder = os.environ.get(ENVIRONMENT)
    if not folder or not preparation:
        return False
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(socket_path(folder, preparation))
            return is_own_user(connection)
    except OSError:
        return False


def _fork(
    connection: socket.socket, request: ForkRequest, error: int, stack: contextlib.ExitStack
) -> ForkedProcess | None:
    request_reader, request_writer = os.pipe()
    stdin = stack.enter_context(os.fdopen(request_writer, "wb"))
    answer_reader, answer_writer = os.pipe()
    stdout = stack.enter_context(os.fdopen(answer_reader, "rb"))
    here = os.open(".", os.O_PATH | os.O_DIRECTORY)
    try:
        socket.send_fds(connection, [b"\0"], [request_reader, answer_writer, error, here])
        with connection.makefile("wb") as stream:
            write_frame(stream, request)
    finally:
        for descriptor in (request_reader, answer_writer, here):
            os.close(descriptor)
    pid = receive_number(connection)
    if not pid:
        with connection.makefile("r", encoding="utf-8") as stream:
            logging.getLogger(__name__).debug("no worker is forked: %s", stream.read() or "its server has ended")
        return None
    connection.settimeout(None)
    return ForkedProcess(pid, connection, stdin, stdout)


def kill_process(process: WorkerProcess) -> None:
    """Kill a process with its children, and wait for its end."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.send_signal(signal.SIGTERM)  # which is all that there is without groups, and kills
    except ProcessLookupError:
        pass
    process.wait()


def interrupt_process(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Interrupt a process, at which it removes what it keeps for itself, or else kill it when its time is over; where
    there are no signals, at once."""
    if os.name == "posix":
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return
    process.kill()
    process.wait()


def end_process(process: WorkerProcess) -> None:
    """Kill a process and let go of what belongs to it."""
    kill_process(process)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    process.close()
