"""The questions that an editor asks about a place or a document, handed on to the process that answers them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from patchgen_core.errors import PatchgenError
from patchgen_core.workers.worker import WorkerDied
from patchgen_lsp.analyst import describe_death
from patchgen_lsp.documents import Documents, is_about_patches
from patchgen_lsp.places import column_of, path_of
from patchgen_lsp.request import Request

Answer = Callable[[Any], Awaitable[Any]]
_SHOWING = ("lenses", "hover")
"""The questions whose answers tell of checks that have run."""


def add_features(server: LanguageServer, documents: Documents) -> None:
    """Have a server answer these questions."""
    triggers = types.CompletionOptions(trigger_characters=['"', "'", ".", "("])
    server.feature(types.TEXT_DOCUMENT_HOVER)(_asking(documents, "hover"))
    server.feature(types.TEXT_DOCUMENT_DEFINITION)(_asking(documents, "definition"))
    server.feature(types.TEXT_DOCUMENT_REFERENCES)(_asking(documents, "references"))
    server.feature(types.TEXT_DOCUMENT_COMPLETION, triggers)(_asking(documents, "completion"))
    server.feature(types.TEXT_DOCUMENT_CODE_LENS)(_asking(documents, "lenses"))
    server.feature(types.TEXT_DOCUMENT_INLAY_HINT)(_asking(documents, "hints"))
    server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)(_asking_or_refusing(documents, "prepare rename"))
    options = types.RenameOptions(prepare_provider=True)
    server.feature(types.TEXT_DOCUMENT_RENAME, options)(_asking_or_refusing(documents, "rename"))
    kinds = types.CodeActionOptions([types.CodeActionKind.QuickFix, types.CodeActionKind.RefactorRewrite])
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, kinds)(_asking_actions(documents))


def _asking_actions(documents: Documents) -> Answer:
    async def answer(params: types.CodeActionParams) -> Any:
        diagnostics = list(params.context.diagnostics)
        return await ask(documents, "actions", params.text_document.uri, params.range.start, diagnostics=diagnostics)

    return answer


def _asking(documents: Documents, kind: str) -> Answer:
    async def answer(params: Any) -> Any:
        return await ask(documents, kind, params.text_document.uri, getattr(params, "position", None))

    return answer


def _asking_or_refusing(documents: Documents, kind: str) -> Answer:
    """What answers a question that a person waits for: why there is no answer is the answer then."""

    async def answer(params: Any) -> Any:
        more = {"name": params.new_name} if isinstance(params, types.RenameParams) else {}
        try:
            return await put(documents, kind, params.text_document.uri, params.position, **more)
        except PatchgenError as error:
            raise JsonRpcException(error.problems[0].message, types.LSPErrorCodes.RequestFailed) from None
        except (WorkerDied, OSError) as error:
            raise JsonRpcException(str(error), types.LSPErrorCodes.RequestFailed) from None

    return answer


async def ask(documents: Documents, kind: str, uri: str, position: types.Position | None, **more: Any) -> Any:
    """The answer to a question about a document; None for a file that is no config and not generated, and where
    there is none: the diagnostics say why."""
    try:
        return await put(documents, kind, uri, position, **more)
    except PatchgenError:
        return None
    except WorkerDied as error:
        documents.tell_once(describe_death(error))
    except OSError as error:
        documents.tell_once(f"no process can be started: {error}")
    return None


async def put(documents: Documents, kind: str, uri: str, position: types.Position | None, **more: Any) -> Any:
    """That, with what goes wrong raised: a PatchgenError, a WorkerDied or an OSError."""
    path = path_of(uri)
    if path is None or not is_about_patches(path):
        return None
    texts = documents.texts()
    line = position.line if position is not None else 0
    lines = texts.get(path, "").split("\n")
    text = lines[line] if line < len(lines) else ""
    column = column_of(text.rstrip("\r"), position.character, documents.units) if position is not None else 0
    more["standings"] = documents.standings.of(path) if kind in _SHOWING else ()
    return await documents.analyst.ask(Request(kind, path, texts, documents.units, line, column, more))
