"""What the checks of a config came to when they ran last, as a process of its own reads it."""

from __future__ import annotations

from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from patchgen_core.checks.standing import Standing, read_standings
from patchgen_lsp.request import Request


def answer(request: Request) -> tuple[list[Standing], bool]:
    """The standings of a config file's items; a PatchgenError where it has no project."""
    project = Session(None, Settings()).project(request.path)
    return read_standings(project, request.path), False
