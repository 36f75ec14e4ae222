"""The process from which those are forked that would import torch and transformers for checks."""

from __future__ import annotations

from patchgen_core.checks.session import Session
from patchgen_core.workers.fork_server import ForkServer
from patchgen_core.workers.machine import has_accelerator

_ANSWERING = "patchgen_core.checks.model_process.answering"
IMPORT_TORCH = f"{_ANSWERING}:import_torch"
"""What all of them begin with."""
RUN_SETUPS = f"{_ANSWERING}:prepare_torch"
"""What comes before the set-ups of a project, where models are to run."""
RUN_MODELS = f"{_ANSWERING}:prepare_models"
"""What comes before every check of a model where there is no set-up."""
RUN_RANKS = "patchgen_core.checks.ranks.rank_imports:prepare_rank"
"""What comes before the set-ups of a project on a rank, and where there is none, before all that it does."""
IMPORT_MODULES = "patchgen_core.checks.imports.forked_import:prepare_process"
"""What comes before a generated module is imported whose upstream module imports what that does."""


def make_fork_server() -> ForkServer:
    """A server that has not been started."""
    steps = {
        IMPORT_TORCH: "",
        RUN_SETUPS: IMPORT_TORCH,
        RUN_MODELS: RUN_SETUPS,
        RUN_RANKS: RUN_MODELS,
        IMPORT_MODULES: IMPORT_TORCH,  # which finds triton as it is without its interpreter
    }
    return ForkServer(steps)


def start_fork_server() -> ForkServer | None:
    """A server that has been started; None where this machine has what cannot be forked."""
    if has_accelerator():
        return None
    server = make_fork_server()
    server.start()
    return server


def share_imports(session: Session) -> None:
    """Start a server that ends with a session, unless there is one, or this machine has what cannot be forked."""
    if session.fork_server is None:
        session.fork_server = start_fork_server()
