"""A watch in a process of its own, and what it prints."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Workspace

END = ""


class Watch:
    """``patchgen --watch`` in a process of its own, or the subcommand of that name."""

    def __init__(self, work: Workspace, *arguments: str, command: str = "--watch") -> None:
        env = {**os.environ, "PYTHONPATH": str(work.site), "COLUMNS": "120"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "patchgen_core", command, *arguments],
            cwd=work.root,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.started = self.until("Watching '")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(END)

    def until(self, end: str) -> str:
        """What is printed next, up to the first line that holds a text."""
        said = ""
        while True:
            try:
                line = self.lines.get(timeout=30)
            except queue.Empty:
                line = END
            said += line
            if line == END:
                pytest.fail(f"no {end!r} in:\n{said}")
            if end in line:
                return said

    def update(self) -> str:
        """What the next change brings about, up to its summary."""
        return self.until(" ms.")

    def assert_quiet(self) -> None:
        """Nothing is printed for as long as something would be, if it were."""
        time.sleep(0.7)
        assert self.lines.empty(), self.until("")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


Start = Callable[..., Watch]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts watches, and ends them when the test is over."""
    started: list[Watch] = []

    def start(work: Workspace, *arguments: str, command: str = "--watch") -> Watch:
        started.append(Watch(work, *arguments, command=command))
        return started[-1]

    yield start
    for watch in started:
        watch.process.kill()
        watch.process.wait()
