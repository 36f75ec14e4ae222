"""The other side of the process that writes configs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.project.project import Project
from patchgen_lsp.authoring.absorbing import absorb_edits
from patchgen_lsp.authoring.merging import merge_upstream
from patchgen_lsp.authoring.slimming import slim_replacement
from patchgen_lsp.commands import ABSORB, MERGE, SLIM
from patchgen_lsp.request import Request
from patchgen_lsp.rewriting import Rewriting

_ACTIONS: Mapping[str, Callable[[Project, Request], Rewriting]] = {
    SLIM: slim_replacement,
    MERGE: merge_upstream,
    ABSORB: absorb_edits,
}


def answer(request: Request) -> tuple[Rewriting, bool]:
    """What an action writes; a PatchgenError where it cannot be done, such as while there are unsaved changes."""
    project = Session(None, Settings()).project(request.path)
    for path, text in request.texts.items():
        if path.is_relative_to(project.base) and text != _read(path):
            message = "there are unsaved changes: save them first, because this is about what saved files say"
            raise PatchgenError(message, Location(str(path)))
    return _ACTIONS[request.kind](project, request), False


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
