"""How actions are put to an editor."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from patchgen_core.syntax.source import SourceFile
from patchgen_lsp.places import make_range
from patchgen_lsp.request import Request

CONFIG_FIX = types.CodeActionKind.QuickFix
REWRITE = types.CodeActionKind.RefactorRewrite


def edit_action(
    request: Request,
    title: str,
    edits: Sequence[types.TextEdit],
    diagnostic: types.Diagnostic | None,
    kind: types.CodeActionKind = CONFIG_FIX,
    is_preferred: bool | None = None,
) -> types.CodeAction:
    """An action that edits the file of a request."""
    changes = types.WorkspaceEdit(changes={request.path.as_uri(): list(edits)})
    about = [diagnostic] if diagnostic is not None else None
    return types.CodeAction(title, kind, about, is_preferred=is_preferred, edit=changes)


def command_action(title: str, command: str, *arguments: object) -> types.CodeAction:
    """An action that the server carries out when it is chosen."""
    return types.CodeAction(title, REWRITE, command=types.Command(title, command, arguments=list(arguments)))


def insert_line(source: SourceFile, line: int, text: str, request: Request) -> types.TextEdit:
    """The edit that puts a text before a line, counted from 0."""
    return types.TextEdit(make_range(source.lines, (line, 0), (line, 0), request.units), text)
