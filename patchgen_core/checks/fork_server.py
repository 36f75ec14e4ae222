"""The process from which those of checks are forked when several processes of a run check models."""

from __future__ import annotations

from patchgen_core.workers.fork_server import ForkServer

_ANSWERING = "patchgen_core.checks.model_process.answering"
RUN_SETUPS = f"{_ANSWERING}:prepare_torch"
"""What comes before the set-ups of a project, where models are to run."""
RUN_MODELS = f"{_ANSWERING}:prepare_models"
"""What comes before every check of a model where there is no set-up."""
IMPORT_MODULES = "patchgen_core.checks.imports.forked_import:prepare_process"
"""What comes before a generated module is imported whose upstream module imports what that does."""


def make_fork_server() -> ForkServer:
    """A server that has not been started."""
    return ForkServer([RUN_SETUPS, RUN_MODELS, IMPORT_MODULES])
