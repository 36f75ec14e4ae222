"""What a person may have done in a generated file."""

from __future__ import annotations

from lsprotocol import types

from patchgen_core.syntax.header import is_generated, read_fingerprint
from patchgen_lsp.analysis.code_actions import command_action
from patchgen_lsp.analysis.generated_view import find_maker
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.commands import ABSORB, REGENERATE
from patchgen_lsp.request import Request


def list_generated_actions(bench: Workbench, request: Request) -> list[types.CodeAction]:
    """In a generated file that was edited by hand: have its config make that, or write over it."""
    text = bench.sources.text(request.path).replace("\r\n", "\n")
    mark = read_fingerprint(text) if is_generated(text) else None
    if mark is None or mark.sealed:
        return []
    view = find_maker(bench, request.path)
    if view is None:
        return []
    config = view.config
    return [
        command_action(f"Absorb the hand edits into {config.name}", ABSORB, request.path.as_uri(), str(config)),
        command_action(f"Regenerate from {config.name} (the edits are kept as a copy)", REGENERATE, config.as_uri()),
    ]
