"""An editor of which tests are the person, and a copy of the zoo."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from tests.conftest import ROOT

QWEN3 = "examples/zoo/qwen3/qwen3_gpu_patch_gen_config.py"
LLAMA = "examples/zoo/llama/llama_gpu_patch_gen_config.py"
SECONDS = 90.0


class Editor:
    """A client of the protocol that waits for answers."""

    def __init__(self, root: Path, arguments: tuple[str, ...] = ()) -> None:
        self.root = root
        self.shown: dict[tuple[str, int | None], list[types.Diagnostic]] = {}
        self.messages: list[str] = []
        self.versions: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        self._news = threading.Condition()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._run(self._start(arguments))

    async def _start(self, arguments: tuple[str, ...]) -> None:
        self.client = LanguageClient("test", "1")
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: self._show(params))
        self.client.feature(types.WINDOW_SHOW_MESSAGE)(lambda params: self.messages.append(params.message))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, "-m", "patchgen_lsp", *arguments]
        await self.client.start_io(*command, env=environment, cwd=self.root)
        parameters = types.InitializeParams(types.ClientCapabilities(), root_uri=self.root.as_uri())
        self.capabilities = (await self.client.initialize_async(parameters)).capabilities
        self.client.initialized(types.InitializedParams())

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(SECONDS)

    def _show(self, params: types.PublishDiagnosticsParams) -> None:
        with self._news:
            self.shown[params.uri, params.version] = list(params.diagnostics)
            self._news.notify_all()

    def ask(self, method: str, params: Any) -> Any:
        """The answer to a request."""

        async def request() -> Any:
            return await self.client.protocol.send_request_async(method, params)

        return self._run(request())

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
        uri = self.uri(path)
        self.versions[uri] += 1
        self.texts[uri] = text
        document = types.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        change = types.TextDocumentContentChangeWholeDocument(text)
        self._loop.call_soon_threadsafe(
            self.client.text_document_did_change, types.DidChangeTextDocumentParams(document, [change])
        )

    def save(self, path: str | Path) -> list[types.Diagnostic]:
        """Write the text that was typed, and see what is said of it then."""
        uri = self.uri(path)
        (self.root / path).write_text(self.texts[uri], encoding="utf-8")
        self.shown.pop((uri, self.versions[uri]), None)
        params = types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri))
        self._loop.call_soon_threadsafe(self.client.text_document_did_save, params)
        return self.wait(uri)

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


def copy_zoo(folder: Path) -> Path:
    """A project with the zoo's configs, and what is generated of them."""
    ignored = shutil.ignore_patterns("__pycache__", ".patchgen*")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder
