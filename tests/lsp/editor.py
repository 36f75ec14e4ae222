"""An editor of which tests are the person, and a copy of the zoo."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygls.protocol import default_converter

from tests.conftest import ROOT

QWEN3 = "examples/zoo/qwen3/qwen3_gpu_patch_gen_config.py"
LLAMA = "examples/zoo/llama/llama_gpu_patch_gen_config.py"
SECONDS = 90.0


_CAPABILITIES = types.ClientCapabilities(
    workspace=types.WorkspaceClientCapabilities(
        apply_edit=True, code_lens=types.CodeLensWorkspaceClientCapabilities(refresh_support=True)
    ),
    window=types.WindowClientCapabilities(work_done_progress=True),
)


def _make_converter() -> Any:
    """What reads messages: lsprotocol's own takes an action that has a command for a command."""
    converter = default_converter()

    def read(data: Any, _: Any) -> Any:
        return converter.structure(data, types.Command if isinstance(data.get("command"), str) else types.CodeAction)

    converter.register_structure_hook(types.Command | types.CodeAction, read)
    return converter


class Editor:
    """A client of the protocol that waits for answers."""

    def __init__(
        self, root: Path, arguments: tuple[str, ...] = (), path: Path = ROOT, shows_diffs: bool = False
    ) -> None:
        """Start the server in a folder; ``path`` is what Python finds modules in beside what is installed."""
        self.root, self.path, self.shows_diffs = root, path, shows_diffs
        self.shown: dict[tuple[str, int | None], list[types.Diagnostic]] = {}
        self.messages: list[str] = []
        self.progress: list[Any] = []
        self.answers: list[str] = []
        self.documents: list[Path] = []
        self.refreshes = 0
        self.versions: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        self._news = threading.Condition()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._run(self._start(arguments))

    async def _start(self, arguments: tuple[str, ...]) -> None:
        self.client = LanguageClient("test", "1", converter_factory=_make_converter)
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: self._show(params))
        self.client.feature(types.WINDOW_SHOW_MESSAGE)(lambda params: self.messages.append(params.message))
        self.client.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)(lambda params: self._choose(params))
        self.client.feature(types.WORKSPACE_APPLY_EDIT)(lambda params: self._apply(params))
        self.client.feature(types.WORKSPACE_CODE_LENS_REFRESH)(lambda params: self._refresh())
        self.client.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)(lambda params: None)
        self.client.feature(types.WINDOW_SHOW_DOCUMENT)(lambda params: self._show_document(params))
        self.client.feature(types.PROGRESS)(lambda params: self.progress.append(params))
        environment = {**os.environ, "PYTHONPATH": str(self.path)}
        command = [sys.executable, "-m", "patchgen_lsp", "--time-limit", "60", *arguments]
        await self.client.start_io(*command, env=environment, cwd=self.root)
        options = {"showsDiffs": True} if self.shows_diffs else None
        parameters = types.InitializeParams(_CAPABILITIES, root_uri=self.root.as_uri(), initialization_options=options)
        self.capabilities = (await self.client.initialize_async(parameters)).capabilities
        self.client.initialized(types.InitializedParams())

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(SECONDS)

    def _show(self, params: types.PublishDiagnosticsParams) -> None:
        with self._news:
            self.shown[params.uri, params.version] = list(params.diagnostics)
            self._news.notify_all()

    def _show_document(self, params: types.ShowDocumentParams) -> types.ShowDocumentResult:
        self.documents.append(Path(params.uri.removeprefix("file://")))
        return types.ShowDocumentResult(success=True)

    def _refresh(self) -> None:
        with self._news:
            self.refreshes += 1
            self._news.notify_all()

    def _choose(self, params: types.ShowMessageRequestParams) -> types.MessageActionItem | None:
        """Press the button that a test has named beforehand."""
        self.messages.append(params.message)
        wanted = self.answers.pop(0) if self.answers else ""
        return next((action for action in params.actions or () if action.title == wanted), None)

    def _apply(self, params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        """Apply edits as editors do: to the text of an open file, whose version must be the one that was meant."""
        for change in params.edit.document_changes or ():
            uri, version = change.text_document.uri, change.text_document.version
            if version is not None and version != self.versions.get(uri):
                return types.ApplyWorkspaceEditResult(applied=False, failure_reason="the text has changed")
            path = Path(uri.removeprefix("file://"))
            text = edited(self.texts.get(uri) or path.read_text(encoding="utf-8"), change.edits)
            if uri in self.texts:
                self._change(uri, text)
            else:
                path.write_text(text, encoding="utf-8")
        return types.ApplyWorkspaceEditResult(applied=True)

    def run(self, command: str, *arguments: Any) -> Any:
        """Carry out a command of the server's, to its end; what it answers."""
        return self.ask(
            types.WORKSPACE_EXECUTE_COMMAND, types.ExecuteCommandParams(command, arguments=list(arguments))
        )

    def actions(
        self, path: str | Path, piece: str, diagnostics: list[types.Diagnostic] | None = None
    ) -> dict[str, types.CodeAction]:
        """The actions at a piece of the text, by their titles."""
        place = self.place(path, piece)
        at = types.Range(place["position"], place["position"])
        params = types.CodeActionParams(place["text_document"], at, types.CodeActionContext(diagnostics or []))
        return {action.title: action for action in self.ask(types.TEXT_DOCUMENT_CODE_ACTION, params) or ()}

    def do(self, action: types.CodeAction) -> None:
        """Choose an action."""
        if action.edit is not None:
            for uri, edits in action.edit.changes.items():
                self._loop.call_soon_threadsafe(self._change, uri, edited(self.texts[uri], edits))
        if action.command is not None:
            self.run(action.command.command, *action.command.arguments)

    def lenses(self, path: str | Path) -> dict[int, str]:
        """What stands above each line, counted from 1."""
        document = types.TextDocumentIdentifier(self.uri(path))
        lenses = self.ask(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensParams(document)) or ()
        return {lens.range.start.line + 1: lens.command.title for lens in lenses}

    def wait_for(self, is_there: Callable[[], Any]) -> Any:
        """What something comes to, once it comes to anything."""
        end = time.monotonic() + SECONDS
        while not (value := is_there()):
            assert time.monotonic() < end, "nothing came"
            time.sleep(0.1)
        return value

    def ask(self, method: str, params: Any) -> Any:
        """The answer to a request."""

        async def request() -> Any:
            return await self.client.protocol.send_request_async(method, params)

        return self._run(request())

    def send(self, method: str, params: Any) -> None:
        """Send a request whose answer nobody waits for."""
        self._loop.call_soon_threadsafe(self.client.protocol.send_request, method, params)

    def notify(self, method: str, params: Any) -> None:
        self._loop.call_soon_threadsafe(self.client.protocol.notify, method, params)

    def uri(self, path: str | Path) -> str:
        return (self.root / path).as_uri()

    def read(self, path: str | Path) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def open(self, path: str | Path, text: str | None = None) -> list[types.Diagnostic]:
        """Open a file, and see what is said of it."""
        uri, text = self.uri(path), self.read(path) if text is None else text
        self.versions[uri] = self.versions.get(uri, 0) + 1
        self.texts[uri] = text
        item = types.TextDocumentItem(uri, "python", self.versions[uri], text)
        self._loop.call_soon_threadsafe(self.client.text_document_did_open, types.DidOpenTextDocumentParams(item))
        return self.wait(uri) if str(path).endswith("_patch_gen_config.py") else []

    def change(self, path: str | Path, text: str) -> list[types.Diagnostic]:
        """Type a text, and see what is said of it."""
        self.type(path, text)
        return self.wait(self.uri(path))

    def type(self, path: str | Path, text: str) -> None:
        """Type a text."""
        changed = threading.Event()

        def change() -> None:
            self._change(self.uri(path), text)
            changed.set()

        self._loop.call_soon_threadsafe(change)
        assert changed.wait(SECONDS)

    def _change(self, uri: str, text: str) -> None:
        self.versions[uri] += 1
        self.texts[uri] = text
        document = types.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    def save(self, path: str | Path) -> list[types.Diagnostic]:
        """Write the text that was typed, and see what is said of it then."""
        uri = self.uri(path)
        self.write(path)
        return self.wait(uri)

    def write(self, path: str | Path) -> None:
        """Write the text that was typed."""
        uri = self.uri(path)
        (self.root / path).write_text(self.texts[uri], encoding="utf-8")
        self.shown.pop((uri, self.versions[uri]), None)
        params = types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri))
        self._loop.call_soon_threadsafe(self.client.text_document_did_save, params)

    def wait(self, uri: str) -> list[types.Diagnostic]:
        """What is said of the text as it is now."""
        key, end = (uri, self.versions[uri]), time.monotonic() + SECONDS
        with self._news:
            while key not in self.shown:
                assert self._news.wait(end - time.monotonic()), f"nothing was said of {uri}"
            return self.shown[key]

    def close(self, path: str | Path) -> None:
        params = types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(self.uri(path)))
        self._loop.call_soon_threadsafe(self.client.text_document_did_close, params)

    def place(self, path: str | Path, piece: str, at: int = 1) -> dict[str, Any]:
        """What a request about the place of a piece of the text has, ``at`` characters inside it."""
        text = self.texts[self.uri(path)]
        offset = text.index(piece) + at
        line = text.count("\n", 0, offset)
        position = types.Position(line, offset - (text.rfind("\n", 0, offset) + 1))
        return {"text_document": types.TextDocumentIdentifier(self.uri(path)), "position": position}

    def stop(self) -> None:
        async def end() -> None:
            await self.client.shutdown_async(None)
            self.client.exit(None)
            await self.client.stop()

        self._run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)


def edited(text: str, edits: Sequence[types.TextEdit]) -> str:
    """A text with edits, all of which are about the text as it was."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def offset(position: types.Position) -> int:
        return starts[min(position.line, len(starts) - 1)] + position.character

    for edit in sorted(edits, key=lambda edit: (edit.range.start.line, edit.range.start.character), reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


def copy_zoo(folder: Path) -> Path:
    """A project with the zoo's configs, and what is generated of them."""
    ignored = shutil.ignore_patterns("__pycache__", ".patchgen*")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder
