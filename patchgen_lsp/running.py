"""Running checks of a config because a person asked for it, where they see how far it is and can end it."""

from __future__ import annotations

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
from patchgen_lsp.progress import Progress


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
        progress = Progress(self.server, f"patchgen: {', '.join(checks) or 'checks'} of {path.name}")

        def report(result: CheckResult, done: int, items: int) -> None:
            message = f"{result.name} {result.status} ({done} of {items})"
            progress.report(message, min(100, 100 * done // max(items, 1)))

        process = self._processes[path] = GateProcess(base, path, checks, report)
        await progress.begin(process.stop)
        run = await process.run()
        progress.end(run.failure or describe_results(run.results))
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
