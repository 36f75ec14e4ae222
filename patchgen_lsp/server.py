"""The server's life: what it can do, and what it does when documents open, change and close."""

from __future__ import annotations

import logging
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from patchgen_lsp.analyst import AUTHORING, STANDINGS, Analyst
from patchgen_lsp.command_features import add_commands
from patchgen_lsp.documents import Documents
from patchgen_lsp.features import add_features
from patchgen_lsp.running import Runs

_WATCHED = ("**/*.py", "**/pyproject.toml", "**/*.diff", "**/ruff.toml", "**/.ruff.toml")
_LOOKING, _WRITING = 60.0, 120.0
"""Seconds that looking at what kept results depend on may take, and writing configs anew."""


def serve(time_limit: float) -> None:
    """Serve one editor on standard input and output, until it ends the server."""
    logging.getLogger("pygls").setLevel(logging.ERROR)
    analysts = (
        Analyst(time_limit),
        Analyst(_LOOKING, STANDINGS, is_brief=True),
        Analyst(_WRITING, AUTHORING, is_brief=True),
    )
    server = LanguageServer("patchgen", _own_version(), text_document_sync_kind=types.TextDocumentSyncKind.Incremental)
    documents = Documents(server, *analysts[:2])
    runs = Runs(server, documents)
    _add_documents(server, documents)
    add_features(server, documents)
    add_commands(server, documents, runs, analysts[2])
    try:
        server.start_io()
    finally:
        runs.stop()
        for analyst in analysts:
            analyst.close()


def _own_version() -> str:
    try:
        return version("pytest-patchgen")
    except PackageNotFoundError:
        return "unknown"


def _add_documents(server: LanguageServer, documents: Documents) -> None:
    def initialize(params: types.InitializeParams) -> None:
        options: Any = params.initialization_options
        shows = options.get("showsDiffs") if isinstance(options, dict) else getattr(options, "showsDiffs", False)
        documents.shows_diffs = bool(shows)

    async def opened(params: types.DidOpenTextDocumentParams) -> None:
        documents.schedule(params.text_document.uri, 0)

    async def changed(params: types.DidChangeTextDocumentParams) -> None:
        documents.schedule(params.text_document.uri)
        documents.schedule_others(params.text_document.uri)

    async def saved(params: types.DidSaveTextDocumentParams) -> None:
        await documents.refresh()

    async def closed(params: types.DidCloseTextDocumentParams) -> None:
        documents.forget(params.text_document.uri)

    async def changed_on_disk(params: types.DidChangeWatchedFilesParams) -> None:
        await documents.refresh()

    async def initialized(params: types.InitializedParams) -> None:
        await _watch_files(server)

    server.feature(types.INITIALIZE)(initialize)
    server.feature(types.TEXT_DOCUMENT_DID_OPEN)(opened)
    server.feature(types.TEXT_DOCUMENT_DID_CHANGE)(changed)
    server.feature(types.TEXT_DOCUMENT_DID_SAVE)(saved)
    server.feature(types.TEXT_DOCUMENT_DID_CLOSE)(closed)
    server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)(changed_on_disk)
    server.feature(types.INITIALIZED)(initialized)


async def _watch_files(server: LanguageServer) -> None:
    """Have the editor tell of files that are written, where it can."""
    workspace = server.client_capabilities.workspace
    watching = workspace.did_change_watched_files if workspace is not None else None
    if watching is None or not watching.dynamic_registration:
        return
    watchers = [types.FileSystemWatcher(pattern) for pattern in _WATCHED]
    options: Any = types.DidChangeWatchedFilesRegistrationOptions(watchers)
    registration = types.Registration("patchgen-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
    await server.client_register_capability_async(types.RegistrationParams([registration]))
