"""A service of one's own, as a process, for tests in a browser and for what is measured."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType

PASSWORD = "correct horse battery"
_TAIL = 4000


class ServiceProcess:
    """``patchgen serve`` over a folder, at a free port of this machine; ``url`` is the last word it begins with.

    ``arguments`` have it do something else until it is told to stop, such as a worker. What it logs goes into the
    file ``log``, where there is one.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None, *arguments: str) -> None:
        self.folder = folder
        self.arguments = arguments or ("--port", "0")
        self.environment = {**os.environ, "PATCHGEN_PASSWORD": PASSWORD, **(environment or {})}
        self.url = ""
        self.log: Path | None = None
        self.process: subprocess.Popen[str] | None = None

    def command(self, *arguments: str) -> str:
        """What a command of the service prints."""
        return subprocess.run(
            self._command(*arguments), env=self.environment, check=True, capture_output=True, text=True
        ).stdout

    def start(self) -> None:
        """Start it, or start it again, and wait until it says that it is there."""
        with self.log.open("a") if self.log is not None else nullcontext() as log:
            self.process = subprocess.Popen(
                self._command(*self.arguments), env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("patchgen "), f"the service did not start: {line!r} {self._read_end_of_log()}"
        self.url = line.split()[-1]

    def kill(self) -> None:
        """End it with no word."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Tell it to stop, and wait."""
        self._end(signal.SIGTERM)

    def __enter__(self) -> ServiceProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _read_end_of_log(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-_TAIL:] if self.log is not None else ""

    def _end(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def processor_seconds(self) -> float:
        """The processor time that it has taken so far, without that of its children."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def resident_mib(self) -> float:
        """The memory that it has now, without that of its children."""
        assert self.process is not None
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="utf-8").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "patchgen_core", "serve", "--data", str(self.folder), *arguments]
