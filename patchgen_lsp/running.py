"""Running checks of a config because a person asked for it, where they see how far it is and can end it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from patchgen_core.checks.result import CheckResult
from patchgen_core.errors import PatchgenError
from patchgen_core.report.words import quantity
from patchgen_core.workers.worker import WorkerDied
from patchgen_lsp.documents import Documents
from patchgen_lsp.features import put
from patchgen_lsp.gate_run import GateProcess, GateRun
from patchgen_lsp.places import path_of


class Runs:
    """The runs of a server, one of each config at a time."""

    def __init__(self, server: LanguageServer, documents: Documents) -> None:
        self.server, self.documents = server, documents
        self._processes: dict[Path, GateProcess] = {}

    async def run(self, uri: str, checks: Sequence[str] = ()) -> None:
        """Run checks of a config, or all of them, show their results, and tell how they went."""
        path = path_of(uri)
        if path is None or path in self._processes:
            message = "its checks are running: wait for them, or cancel them"
            self.documents.tell(types.MessageType.Warning, message)
            return
        try:
            base = await put(self.documents, "base", uri, None)
            if base is None:
                return
            results = await self._run(path, Path(base), checks)
        except (PatchgenError, WorkerDied, OSError) as error:
            self.documents.tell(types.MessageType.Error, f"the checks did not run: {error}")
            return
        finally:
            self._processes.pop(path, None)
        self._show(path, results)

    def stop(self) -> None:
        """End all that is running."""
        for process in self._processes.values():
            process.stop()

    async def _run(self, path: Path, base: Path, checks: Sequence[str]) -> GateRun:
        progress = _Progress(self.server, f"patchgen: {', '.join(checks) or 'checks'} of {path.name}")
        process = self._processes[path] = GateProcess(base, path, checks, progress.report)
        await progress.begin(process)
        run = await process.run()
        progress.end(run)
        return run

    def _show(self, path: Path, run: GateRun) -> None:
        self.documents.standings.note_run(path, run.results)
        if run.failure:
            self.documents.tell(types.MessageType.Warning, f"the checks of {path.name} did not end: {run.failure}")
            return
        red = [result.name for result in run.results if result.is_bad]
        kind = types.MessageType.Warning if red else types.MessageType.Info
        self.documents.tell(kind, f"{path.name}: {describe_results(run.results)}")


def describe_results(results: Sequence[CheckResult]) -> str:
    """How many results there are, and which are red or were skipped."""
    red = dict.fromkeys(result.name for result in results if result.is_bad)
    skipped = dict.fromkeys(result.name for result in results if result.status == "skipped")
    count = len({result.item for result in results})
    parts = [f"{quantity(count, 'check')} ran"]
    parts += [f"red: {', '.join(red)}"] if red else [] if skipped else ["all ok"]
    return "; ".join([*parts, *([f"skipped: {', '.join(skipped)}"] if skipped else [])])


class _Progress:
    """What an editor shows of a run, if it shows progress at all."""

    def __init__(self, server: LanguageServer, title: str) -> None:
        self.server, self.title = server, title
        self.token = str(uuid.uuid4())
        window = server.client_capabilities.window
        self.is_shown = window is not None and bool(window.work_done_progress)

    async def begin(self, process: GateProcess) -> None:
        """Show that a run begins, which the person can end."""
        if not self.is_shown:
            return
        progress, loop = self.server.work_done_progress, asyncio.get_running_loop()
        await progress.create_async(self.token)
        begin = types.WorkDoneProgressBegin(title=self.title, cancellable=True, percentage=0)
        progress.begin(self.token, begin)
        cancelled = progress.tokens[self.token]

        def stop(future: object) -> None:
            if cancelled.cancelled():
                loop.call_soon_threadsafe(process.stop)

        cancelled.add_done_callback(stop)

    def report(self, result: CheckResult, done: int, items: int) -> None:
        """Show what has just ended."""
        if self.is_shown:
            message = f"{result.name} {result.status} ({done} of {items})"
            value = types.WorkDoneProgressReport(message=message, percentage=min(100, 100 * done // max(items, 1)))
            self.server.work_done_progress.report(self.token, value)

    def end(self, run: GateRun) -> None:
        """Show that it is over."""
        if self.is_shown:
            value = types.WorkDoneProgressEnd(message=run.failure or describe_results(run.results))
            self.server.work_done_progress.end(self.token, value)
            self.server.work_done_progress.tokens.pop(self.token, None)
