"""The process from which those of checks are forked when several processes of a run check models."""

from __future__ import annotations

from patchgen_core.workers.fork_server import ForkServer

RUN_MODELS = "patchgen_core.checks.model_process.answering:prepare_process"
"""What comes before every check of a model, where a set-up of the project does not come in between."""
IMPORT_MODULES = "patchgen_core.checks.imports.forked_import:prepare_process"
"""What comes before a generated module is imported whose upstream module imports what that does."""


def make_fork_server() -> ForkServer:
    """A server that has not been started."""
    return ForkServer([RUN_MODELS, IMPORT_MODULES])
