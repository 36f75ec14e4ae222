"""What a person may have done in a generated file."""

from __future__ import annotations

from lsprotocol import types

from patchgen_lsp.analysis.code_actions import CONFIG_FIX, command_action
from patchgen_lsp.analysis.generated_view import find_maker
from patchgen_lsp.analysis.hand_edited import EDITED_CODE, is_edited
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.commands import ABSORB, REGENERATE
from patchgen_lsp.request import Request


def list_generated_actions(bench: Workbench, request: Request) -> list[types.CodeAction]:
    """In a generated file that was edited by hand: have its config make that, or write over it."""
    if not is_edited(bench.sources.text(request.path).replace("\r\n", "\n")):
        return []
    view = find_maker(bench, request.path)
    if view is None:
        return []
    config = view.config
    actions = [
        command_action(f"Absorb the hand edits into {config.name}", ABSORB, request.path.as_uri(), str(config)),
        command_action(f"Regenerate from {config.name} (the edits are kept as a copy)", REGENERATE, config.as_uri()),
    ]
    about = [each for each in request.more["diagnostics"] if each.code == EDITED_CODE]
    for action in actions if about else ():
        action.kind, action.diagnostics = CONFIG_FIX, about
    return actions
