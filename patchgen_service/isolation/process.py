"""A command that is watched: its output as it comes, its limits, and its end with all that it started."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from patchgen_service.isolation.box import MEBIBYTE, Box, Kind, Limits
from patchgen_service.isolation.commands import build_command
from patchgen_service.isolation.containers import remove_container
from patchgen_service.isolation.process_group import ProcessGroup
from patchgen_service.isolation.usage import measure_folder, measure_processes

Reason = Literal["ended", "stopped", "seconds", "memory", "processes", "disk", "output"]
"""Why a command is over: it ended by itself, somebody wanted it to stop, or it was at one of its limits."""

_EVERY = 0.1
_FOLDERS_EVERY = 1.0
_TAIL = 16384
_CHUNK = 1 << 16
_SECONDS_TO_DIE = 10.0
_MOST_HANDLES = 256


@dataclass(frozen=True)
class Exit:
    """How a command ended.

    Attributes:
        code: its exit code; negative for that of a signal.
        tail: the last that it wrote to standard error.
        message: why it was ended, in a sentence; empty where it ended by itself.
    """

    reason: Reason
    code: int
    tail: str
    message: str = ""


def run_command(
    kind: Kind,
    box: Box,
    arguments: Sequence[str],
    take_line: Callable[[bytes], None] = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Exit:
    """Run a command in a box until it ends or has to; nothing that it started is left.

    ``take_line`` gets each line of its standard output as soon as it is there, in this thread.

    Raises:
        OSError: the command cannot be started.
    """
    if kind == "podman":  # which has groups of its own
        with tempfile.TemporaryDirectory(prefix="patchgen-pid-") as folder:
            pid_file = Path(folder, "pid")
            command = build_command(kind, box, arguments, pid_file)
            try:
                return _run(None, command, kind, box, take_line, should_stop, pid_file)
            finally:
                remove_container(pid_file.parent.name)
    group = ProcessGroup(box.limits.processes)
    try:
        return _run(group, group.joining(build_command(kind, box, arguments)), kind, box, take_line, should_stop)
    finally:
        group.remove()


def _run(
    group: ProcessGroup | None,
    command: list[str],
    kind: Kind,
    box: Box,
    take_line: Callable[[bytes], None],
    should_stop: Callable[[], bool],
    pid_file: Path | None = None,
) -> Exit:
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=box.folder if kind == "none" else "/",
        start_new_session=True,
        env=_read_variables(kind),
    ) as process:
        watch = _Watch(process, box, group, should_stop, pid_file)
        try:
            _read(process, watch, take_line)
        finally:
            watch.end()
    return Exit(watch.reason, process.returncode, watch.tail.decode(errors="replace"), watch.message)


def _read_variables(kind: Kind) -> dict[str, str]:
    """What the program that isolates gets of this process's variables; what runs in it gets those of its box."""
    names = ("HOME", "XDG_RUNTIME_DIR") if kind == "podman" else ()
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        **{name: os.environ[name] for name in names if name in os.environ},
    }


class _Watch:
    """Ends a process with its descendants when that is wanted, or at a limit."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        box: Box,
        group: ProcessGroup | None,
        should_stop: Callable[[], bool],
        pid_file: Path | None = None,
    ) -> None:
        self._process, self._box, self._group, self._should_stop = process, box, group, should_stop
        self._pid_file = pid_file
        self._started = time.monotonic()
        self._folders_due = 0.0
        self._before = sum(map(measure_folder, box.writable))
        self._over = threading.Event()
        self._handles: dict[int, int] = {}
        self._printed = 0
        self.reason: Reason = "ended"
        self.tail, self.message = b"", ""
        self._thread = threading.Thread(target=self._watch, name="limits of a command", daemon=True)
        self._thread.start()

    def count_output(self, data: bytes, is_error: bool) -> None:
        """Note what was printed."""
        self._printed += len(data)
        if is_error:
            self.tail = (self.tail + data)[-_TAIL:]
        if self._printed > self._box.limits.output:
            self._stop("output")

    def end(self) -> None:
        """End what is left, and wait for it."""
        self._over.set()
        self._thread.join()
        self._kill()
        self._process.wait()
        for handle in self._handles.values():
            os.close(handle)

    def _watch(self) -> None:
        while not self._over.wait(_EVERY):
            reason = self._look()
            if reason is not None:
                self._stop(reason)
                return

    def _look(self) -> Reason | None:
        limits, now = self._box.limits, time.monotonic()
        usage = measure_processes(self._root())
        for pid in usage.pids[1:2]:  # the first of a namespace, without which the others end
            self._hold(pid)
        if self._should_stop():
            return "stopped"
        if now - self._started > limits.seconds:
            return "seconds"
        if usage.processes > limits.processes or (self._group is not None and self._group.was_full()):
            return "processes"
        if usage.memory > limits.memory:
            return "memory"
        if now >= self._folders_due and self._box.writable:
            self._folders_due = now + _FOLDERS_EVERY
            if sum(map(measure_folder, self._box.writable)) - self._before > limits.disk:
                return "disk"
        return None

    def _stop(self, reason: Reason) -> None:
        if self.reason == "ended":
            self.reason, self.message = reason, describe_reason(reason, self._box.limits)
        self._kill()

    def _kill(self) -> None:
        """Kill the process and all that it started, and wait for that.

        What runs in a namespace of its own dies with the first process there, which is gone when all others are.
        """
        root = self._root()
        pids = measure_processes(root).pids if root != self._process.pid or self._process.poll() is None else ()
        for pid in pids[int(root != self._process.pid) : _MOST_HANDLES]:  # podman's own process notes the end
            self._hold(pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for handle in self._handles.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        for pid, handle in self._handles.items():
            if pid != self._process.pid:  # for its own child this process waits elsewhere
                waiting = select.poll()
                waiting.register(handle, select.POLLIN)
                waiting.poll(_SECONDS_TO_DIE * 1000)

    def _root(self) -> int:
        """The process whose descendants are watched: the command, or what podman has begun instead."""
        if self._pid_file is not None:
            with contextlib.suppress(OSError, ValueError):
                return int(self._pid_file.read_text())
        return self._process.pid

    def _hold(self, pid: int) -> None:
        """Have a handle of a process, which stands for no other one even when it is gone."""
        if pid not in self._handles:
            with contextlib.suppress(OSError):
                self._handles[pid] = os.pidfd_open(pid)


def describe_reason(reason: Reason, limits: Limits) -> str:
    """Why a command was ended, in a sentence."""
    return {
        "ended": "",
        "stopped": "It was stopped.",
        "seconds": f"It took longer than {limits.seconds:g} seconds.",
        "memory": f"It used more than {limits.memory // MEBIBYTE} MiB of memory.",
        "processes": f"It had more than {limits.processes} processes and threads at once.",
        "disk": f"It wrote more than {limits.disk // MEBIBYTE} MiB.",
        "output": f"It printed more than {limits.output // MEBIBYTE} MiB.",
    }[reason]


def _read(process: subprocess.Popen[bytes], watch: _Watch, take_line: Callable[[bytes], None]) -> None:
    """Read both outputs until they end or the process does; what comes after that is nobody's."""
    assert process.stdout is not None
    assert process.stderr is not None
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, False)
        selector.register(process.stderr, selectors.EVENT_READ, True)
        while selector.get_map():
            is_over = process.poll() is not None  # asked first: what it wrote until then is there to be read
            ready = selector.select(_EVERY)
            for key, _ in ready:
                data = os.read(key.fd, _CHUNK)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                watch.count_output(data, key.data)
                if not key.data:
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        take_line(line)
            if not ready and is_over:
                return
