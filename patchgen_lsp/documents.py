"""The open documents: their texts by path, and the analysis of what was typed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import CONFIG_SUFFIX, OUTPUT_FOLDER
from patchgen_core.workers.worker import WorkerDied
from patchgen_lsp.analyst import Analyst, describe_death
from patchgen_lsp.places import path_of, uri_of
from patchgen_lsp.request import Request
from patchgen_lsp.standings import Standings

PAUSE = 0.06
"""Seconds without a keystroke after which the text is analysed."""
LONG_PAUSE = 1.5
"""Seconds after which the other open configs are, which keep a person's questions waiting."""


class Documents:
    """What the editor has open, and what it is told of that.

    Each document is analysed a moment after its last change; what comes of an older text of it is dropped. The other
    open configs follow: they may import what was changed.

    Attributes:
        shows_diffs: whether the editor shows two files side by side, given their paths.
    """

    def __init__(self, server: LanguageServer, analyst: Analyst, reader: Analyst) -> None:
        self.server, self.analyst = server, analyst
        self.standings = Standings(reader, self._show_standings)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._told: set[str] = set()
        self.shows_diffs = False

    @property
    def units(self) -> str:
        """How the editor counts characters."""
        encoding = self.server.workspace.position_encoding
        return str(getattr(encoding, "value", encoding) or "utf-16")

    def texts(self) -> Mapping[Path, str]:
        """The texts of the open files, saved or not."""
        documents = self.server.workspace.text_documents
        return {path: document.source for uri, document in documents.items() if (path := path_of(uri)) is not None}

    def schedule(self, uri: str, pause: float = PAUSE, is_urgent: bool = True) -> None:
        """Have a document analysed after a pause; one that is not urgent once nothing else is asked."""
        path = path_of(uri)
        if path is None or not is_about_patches(path):
            return
        if uri in self._tasks:
            self._tasks[uri].cancel()
        self._tasks[uri] = asyncio.get_running_loop().create_task(self._analyse(uri, path, pause, is_urgent))

    def schedule_others(self, changed: str, pause: float = LONG_PAUSE) -> None:
        """Have the other open configs analysed, once what was changed has been."""
        for uri in list(self.server.workspace.text_documents):
            if uri != changed:
                self.schedule(uri, pause, is_urgent=False)

    def forget(self, uri: str) -> None:
        """A document was closed: what was said of it is taken back."""
        task = self._tasks.pop(uri, None)
        if task is not None:
            task.cancel()
        path = path_of(uri)
        if path is not None:
            self.standings.forget(path)
        self.publish(uri, None, [])

    async def refresh(self) -> None:
        """Files changed on disk: analyse everything open again."""
        path = next(iter(self.texts()), Path.cwd())
        self.standings.note_change()
        try:
            await self.analyst.ask(Request("refresh", path))
        except (WorkerDied, OSError) as error:
            self.tell_once(str(error))
        self.schedule_others("", 0)

    async def _show_standings(self, path: Path) -> None:
        """Something is known of checks of a config: show it."""
        for uri in list(self.server.workspace.text_documents):
            if path_of(uri) == path:
                self.schedule(uri, 0)
        workspace = self.server.client_capabilities.workspace
        if workspace is not None and workspace.code_lens is not None and workspace.code_lens.refresh_support:
            await self.server.workspace_code_lens_refresh_async(None)

    async def _analyse(self, uri: str, path: Path, pause: float, is_urgent: bool) -> None:
        await asyncio.sleep(pause)
        document = self.server.workspace.text_documents.get(uri)
        if document is None:
            return
        version = document.version
        diagnostics = await self._diagnose(path, is_urgent)
        now = self.server.workspace.text_documents.get(uri)
        if now is not None and now.version == version:
            self.publish(uri, version, diagnostics)

    async def _diagnose(self, path: Path, is_urgent: bool) -> list[types.Diagnostic]:
        try:
            more = {"standings": self.standings.of(path) if path.name.endswith(CONFIG_SUFFIX) else ()}
            request = Request("check", path, self.texts(), units=self.units, more=more)
            diagnostics: list[types.Diagnostic] = await self.analyst.ask(request, is_urgent)
            return diagnostics
        except PatchgenError as error:
            message = str(error)
        except WorkerDied as error:
            message = describe_death(error)
        except OSError as error:
            message = f"no process can be started: {error}"
        start = types.Position(0, 0)
        return [
            types.Diagnostic(types.Range(start, start), message, types.DiagnosticSeverity.Error, source="patchgen")
        ]

    def publish(self, uri: str, version: int | None, diagnostics: list[types.Diagnostic]) -> None:
        """Show these findings, and no others, in a document."""
        self.server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics, version))

    def tell(self, kind: types.MessageType, message: str) -> None:
        """Tell the person something that is not about a line."""
        self.server.window_show_message(types.ShowMessageParams(kind, f"patchgen: {message}"))

    def tell_once(self, message: str) -> None:
        """Warn the person; the same thing once."""
        if message not in self._told:
            self._told.add(message)
            self.tell(types.MessageType.Warning, message)


def is_about_patches(path: Path) -> bool:
    """Whether a file is a config, or stands where generated modules do."""
    return path.name.endswith(CONFIG_SUFFIX) or path.parent.name == OUTPUT_FOLDER


def location_of(path: Path, line: int) -> types.Location:
    """A line of a file, from 1, as an editor goes to it."""
    start = types.Position(max(line - 1, 0), 0)
    return types.Location(uri_of(path), types.Range(start, start))
