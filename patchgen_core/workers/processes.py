"""Processes that answer requests, a line of JSON each, for what must not happen in this one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from patchgen_core.workers.phases import count, phase

_TO_SAY_WHERE = 0.5


class Server:
    """A script in a process of its own; a context manager that ends it.

    The process is started by the first request, and again by the first one after it has died.

    Args:
        script: the script. It answers every line of standard input by one of standard output, both JSON.
        time_limit: seconds that one request may take.
        output_kept: how many bytes of the last that it said are told when it dies.
    """

    def __init__(self, script: Path, time_limit: float, output_kept: int = 4000) -> None:
        self.script, self.time_limit, self.output_kept = script, time_limit, output_kept
        self._process: subprocess.Popen[str] | None = None
        self._said: IO[bytes] | None = None
        self._told = 0

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process, with the children it has."""
        if self._process is not None:
            _kill(self._process)
            self._process = None
        if self._said is not None:
            self._said.close()
            self._said = None
        self._told = 0

    def tell(self, request: dict[str, Any]) -> None:
        """Send a request whose answer is not looked at, and do not wait for it.

        Whatever goes wrong is left for the next :meth:`ask` to meet.
        """
        with contextlib.suppress(OSError):
            self._send(self._running(), request)
            self._told += 1

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request.

        Returns:
            What the script answers, but for ``seconds`` by phase, which are counted; ``died``, why there is none, and
            ``output``, the last that it said, when its process ends or takes too long.

        Raises:
            OSError: no process can be started.
        """
        process = self._running()
        late = threading.Event()

        def give_up() -> None:
            late.set()
            _ask_where(process)
            _kill(process)

        timer = threading.Timer(self.time_limit, give_up)
        timer.start()
        try:
            self._send(process, request)
            line = self._answer(process)
        except BrokenPipeError:
            line = ""
        except BaseException:  # a test that is interrupted leaves no answer behind for the next one
            self.close()
            raise
        finally:
            timer.cancel()
        if line:
            answer: dict[str, Any] = json.loads(line)
            count(answer.pop("seconds", {}))
            return answer
        ended = f"no answer within {self.time_limit:g} s" if late.is_set() else f"its process has ended{_how(process)}"
        output = self._output()
        self.close()
        return {"died": ended, "output": output}

    @staticmethod
    def _send(process: subprocess.Popen[str], request: dict[str, Any]) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()

    def _answer(self, process: subprocess.Popen[str]) -> str:
        """The answer to the last request; empty when the process ends before."""
        assert process.stdout is not None
        with phase("waiting for a process to be ready"):
            while self._told and process.stdout.readline():
                self._told -= 1
        return process.stdout.readline()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
            self._process = subprocess.Popen(
                [sys.executable, str(self.script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                text=True,
                encoding="utf-8",
                start_new_session=True,
            )
        return self._process

    def _output(self) -> str:
        if self._said is None:
            return ""
        self._said.seek(0)
        return self._said.read()[-self.output_kept :].decode("utf-8", "replace")


def say_where() -> None:
    """Have the process that this runs in write what it is doing to standard error when it crashes or is too late."""
    import faulthandler

    faulthandler.enable(all_threads=False)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, all_threads=False)


def _ask_where(process: subprocess.Popen[str]) -> None:
    """Let a process that is about to be killed write what it is doing; see :func:`say_where`."""
    if hasattr(signal, "SIGUSR1"):
        process.send_signal(signal.SIGUSR1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TO_SAY_WHERE)


def _how(process: subprocess.Popen[str]) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        code = process.wait(5)
        return f" by {_signal_name(-code)}" if code < 0 else f" with exit code {code}"
    return ""


def _signal_name(number: int) -> str:
    """A signal's name; for the one that the system sends when memory is used up, that too."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    return f"{name}, as when memory runs out" if name == "SIGKILL" else name


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)  # with the children
        else:
            process.kill()
    except ProcessLookupError:
        pass
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
