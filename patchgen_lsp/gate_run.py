"""A run of the gate in a process of its own, followed line by line."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.streamed_results import StreamedResults

_MOST_BYTES = 64 * 1024 * 1024
"""How long one line may be: a result with its tables."""


@dataclass(frozen=True)
class GateRun:
    """What became of a run: its results, and why it could not be done, or not to its end; empty for no such reason."""

    results: tuple[CheckResult, ...]
    failure: str = ""


class GateProcess:
    """The gate over one config.

    Args:
        base: the project's folder, where it runs.
        checks: the checks to run; none for all.
        tell: called after each result with it, the number of results and that of all items.
    """

    def __init__(
        self, base: Path, config: Path, checks: Sequence[str], tell: Callable[[CheckResult, int, int], None]
    ) -> None:
        self.base, self.config, self.checks, self._tell = base, config, tuple(checks), tell
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopped = False

    async def run(self) -> GateRun:
        """Run it to its end; an OSError where no process can be started."""
        chosen = ["--checks", ",".join(self.checks)] if self.checks else []
        command = [sys.executable, "-m", "patchgen_core", "gate", "--stream", "-", "--no-color", *chosen]
        self._process = await asyncio.create_subprocess_exec(
            *command,
            str(self.config),
            cwd=self.base,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_MOST_BYTES,
            start_new_session=True,
        )
        told, errors = await asyncio.gather(self._read_results(), self._read_errors())
        code = await self._process.wait()
        if self._is_stopped:
            return GateRun(told.results, "it was cancelled")
        return GateRun(told.results, told.find_failure(code, errors))

    def stop(self) -> None:
        """End it, with the processes that it has started."""
        self._is_stopped = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        try:
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        except ProcessLookupError:
            return

    async def _read_errors(self) -> str:
        assert self._process is not None
        assert self._process.stderr is not None
        lines: list[bytes] = []
        async for line in self._process.stderr:
            lines = [*lines[-50:], line]
        return b"".join(lines).decode("utf-8", "replace")

    async def _read_results(self) -> StreamedResults:
        """The results, and why there are no more."""
        assert self._process is not None
        assert self._process.stdout is not None
        told = StreamedResults(self.base)
        async for line in self._process.stdout:
            result = told.read(line)
            if result is not None:
                self._tell(result, told.done, told.items)
        return told
