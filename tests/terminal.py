"""A command in a real terminal, and somebody who reads and types there."""

from __future__ import annotations

import codecs
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LONGEST = 240.0
"""Seconds that something may take until it shows."""


class Terminal:
    """Runs ``patchgen`` with arguments in a terminal of some columns; ``text`` is what it has shown."""

    def __init__(self, arguments: Sequence[str], folder: Path, columns: int = 80, **environment: str) -> None:
        self._end, other = pty.openpty()
        termios.tcsetwinsize(other, (40, columns)) if hasattr(termios, "tcsetwinsize") else None
        variables = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "NO_COLOR": "1", **environment}
        command = [sys.executable, "-m", "patchgen_core", *arguments]
        self.process = subprocess.Popen(
            command, cwd=folder, env=variables, stdin=other, stdout=other, stderr=other, start_new_session=True
        )
        os.close(other)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text, self._shown, self._read = "", "", 0

    def until(self, *texts: str) -> str:
        """What is shown until it has one of some texts; an error that says what was shown instead."""
        until = time.monotonic() + LONGEST
        while True:
            places = [place for text in texts if (place := self.text.find(text, self._read)) >= 0]
            if places:
                shown, self._read = self.text[self._read : min(places)], min(places) + 1
                return shown
            if not self._receive(max(until - time.monotonic(), 0)):
                raise AssertionError(f"{texts} is not shown, but:\n{self.text}")

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._end, f"{line}\n".encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> int:
        """The exit code, once all is shown."""
        until = time.monotonic() + LONGEST
        while self._receive(max(until - time.monotonic(), 0)):
            pass
        os.close(self._end)
        return self.process.wait(LONGEST)

    def _receive(self, seconds: float) -> bool:
        if not select.select([self._end], [], [], seconds)[0]:
            self.process.kill()
            return False
        try:
            data = os.read(self._end, 65536)
        except OSError:  # nobody has the other end any more
            return False
        self._shown += self._decoder.decode(data)
        self.text = _ESCAPES.sub("", self._shown).replace("\r\n", "\n")
        return bool(data)
