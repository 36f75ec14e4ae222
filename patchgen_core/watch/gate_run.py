"""Checks that take long, run in a process beside a watch, which goes on meanwhile."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from patchgen_core.checks.fork_server import IMPORT_MODULES, RUN_MODELS, Offer, lend_server, start_fork_server
from patchgen_core.checks.registry import CheckInfo
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.streamed_results import StreamedResults
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.workers.fork_server import ForkServer
from patchgen_core.workers.process import interrupt_process, warm_up

_SECONDS_TO_END = 3.0
_LINES_KEPT = 50


class WarmImports:
    """What the processes of all runs of a watch are forked from, so that none of them imports torch and transformers
    again. Where this machine has what cannot be forked, each imports for itself."""

    def __init__(self, checks: Iterable[CheckInfo]) -> None:
        needs = {need for check in checks for need in check.needs}
        wanted = {IMPORT_MODULES: any(check.name == "import" for check in checks), RUN_MODELS: "models" in needs}
        self._preparations = [name for name, is_wanted in wanted.items() if is_wanted]
        self._server: ForkServer | None = None
        self._offer: Offer | None = None

    def start(self, project: Project) -> None:
        """Have them done, and do not wait for it; once more where they were done before, as after an upgrade. Gates of
        the project that are started elsewhere have their processes forked as well."""
        self.close()
        self._server = start_fork_server() if self._preparations else None
        if self._server is not None and self._server.folder:
            for preparation in self._preparations:
                warm_up(preparation)
            self._offer = lend_server(self._server, project)

    def close(self) -> None:
        """End the process that has done them."""
        if self._offer is not None:
            self._offer.withdraw()
        if self._server is not None:
            self._server.close()
        self._server = self._offer = None


class GateRun:
    """The gate over some configs, in a process of its own; :meth:`take` gives its results as they come.

    Args:
        base: the project's folder.
        checks: the names of the checks.
        is_caching: whether results of earlier runs are used.

    Raises:
        PatchgenError: no process can be started.
    """

    def __init__(self, base: Path, configs: Sequence[Path], checks: Sequence[str], is_caching: bool) -> None:
        self.configs = tuple(configs)
        self._told = StreamedResults(base)
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._errors: deque[bytes] = deque(maxlen=_LINES_KEPT)
        chosen = ["--checks", ",".join(checks), *([] if is_caching else ["--no-cache"]), *map(str, configs)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "patchgen_core", "gate", "--stream", "-", "--no-color", *chosen],
                cwd=base,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise PatchgenError(f"no process to run checks in can be started: {error.strerror}") from None
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            self._errors.extend(lines)

    @property
    def results(self) -> tuple[CheckResult, ...]:
        """The results until now."""
        return self._told.results

    @property
    def is_over(self) -> bool:
        """Whether it has told everything; what it told last may still be there to be taken."""
        return not any(reader.is_alive() for reader in self._readers) and self._process.poll() is not None

    @property
    def failure(self) -> str:
        """Why a run that is over was not done, or not to its end; empty where it was."""
        return self._told.find_failure(self._process.returncode, b"".join(self._errors).decode("utf-8", "replace"))

    def take(self) -> list[CheckResult]:
        """The results that have come since the last call; it does not wait for any."""
        results = [self._told.read(self._lines.get()) for _ in range(self._lines.qsize())]
        return [result for result in results if result is not None]

    def close(self) -> None:
        """End it, unless it has ended, with the processes that it has started."""
        if self._process.poll() is None:
            interrupt_process(self._process, _SECONDS_TO_END)
        for reader in self._readers:
            reader.join()
