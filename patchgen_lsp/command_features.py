"""The commands of actions and lenses, as the server carries them out."""

from __future__ import annotations

from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from patchgen_core.errors import PatchgenError
from patchgen_core.workers.worker import WorkerDied
from patchgen_lsp.analyst import Analyst
from patchgen_lsp.commands import ABSORB, MERGE, REGENERATE, RUN_CHECKS, SHOW_DIFF, SLIM
from patchgen_lsp.documents import Documents
from patchgen_lsp.features import ask, put
from patchgen_lsp.places import path_of
from patchgen_lsp.progress import Progress
from patchgen_lsp.request import Request
from patchgen_lsp.rewriting import Rewriting, make_workspace_edit
from patchgen_lsp.running import Runs
from patchgen_lsp.sides import Sides

_TITLES = {SLIM: "writing edits", MERGE: "merging upstream's change", ABSORB: "absorbing hand edits"}


def add_commands(server: LanguageServer, documents: Documents, runs: Runs, author: Analyst) -> None:
    """Have a server carry out its commands."""

    async def regenerate(uri: str) -> None:
        try:
            lines = await put(documents, "regenerate", uri, None)
        except (PatchgenError, WorkerDied, OSError) as error:
            documents.tell(types.MessageType.Error, str(error))
            return
        documents.tell(types.MessageType.Info, "; ".join(lines or ["nothing has drifted"]))
        await documents.refresh()

    async def show_diff(uri: str, target: str = "") -> list[dict[str, Any]]:
        shown: list[Sides] = await ask(documents, "diff", uri, None, target=target) or []
        if documents.shows_diffs:
            return [_describe(sides) for sides in shown]
        for sides in shown:
            await server.window_show_document_async(types.ShowDocumentParams(sides.diff.as_uri()))
        return []

    async def run_checks(uri: str, *checks: str) -> None:
        await runs.run(uri, checks)

    writer = _Writer(server, documents, author)

    async def slim(uri: str, line: int) -> None:
        await writer.write(SLIM, uri, line)

    async def merge(uri: str, target: str, package: str) -> None:
        await writer.write(MERGE, uri, target=target, package=package)

    async def absorb(uri: str, config: str) -> None:
        await writer.write(ABSORB, uri, config=config)

    server.command(SLIM)(slim)
    server.command(MERGE)(merge)
    server.command(ABSORB)(absorb)
    server.command(SHOW_DIFF)(show_diff)
    server.command(REGENERATE)(regenerate)
    server.command(RUN_CHECKS)(run_checks)


def _describe(sides: Sides) -> dict[str, Any]:
    """What an editor needs that shows two files side by side."""
    place = {} if sides.line is None else {"line": sides.line}
    return {"upstream": str(sides.upstream), "generated": str(sides.generated), **place}


class _Writer:
    """Has configs written by a process of its own, and the editor apply that, so that it can take it back."""

    def __init__(self, server: LanguageServer, documents: Documents, author: Analyst) -> None:
        self.server, self.documents, self.author = server, documents, author

    async def write(self, kind: str, uri: str, line: int = 0, **more: Any) -> None:
        """Do what an action does, and tell what came of it."""
        path = path_of(uri)
        if path is None:
            return
        try:
            request = Request(kind, path, self.documents.texts(), self.documents.units, line, 0, more)
            rewriting = await self._ask(request)
            await self._apply(rewriting)
        except (PatchgenError, WorkerDied, OSError) as error:
            self.documents.tell(types.MessageType.Error, str(error))
            return
        kind_of = types.MessageType.Warning if rewriting.is_refused else types.MessageType.Info
        text = "; ".join(rewriting.lines)
        if not rewriting.question:
            self.documents.tell(kind_of, text)
        elif await self._wants(kind_of, text, rewriting.question):
            await self.write(kind, uri, line, **more, **rewriting.answer)

    async def _ask(self, request: Request) -> Rewriting:
        """What is to be written, which takes some seconds."""
        progress = Progress(self.server, f"patchgen: {_TITLES[request.kind]} in {request.path.name}")
        await progress.begin()
        try:
            rewriting: Rewriting = await self.author.ask(request)
        finally:
            progress.end("")
        return rewriting

    async def _apply(self, rewriting: Rewriting) -> None:
        if not rewriting.texts:
            return
        versions = {uri: document.version for uri, document in self.server.workspace.text_documents.items()}
        edit = make_workspace_edit(rewriting.texts, versions, self.documents.units)
        done = await self.server.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(edit, "patchgen"))
        if not done.applied:
            raise PatchgenError(f"the editor did not apply it: {done.failure_reason or 'it says no more'}")

    async def _wants(self, kind: types.MessageType, text: str, question: str) -> bool:
        params = types.ShowMessageRequestParams(kind, f"patchgen: {text}", [types.MessageActionItem(question)])
        answer = await self.server.window_show_message_request_async(params)
        return answer is not None and answer.title == question
