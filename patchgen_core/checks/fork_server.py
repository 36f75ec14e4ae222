"""The process from which those are forked that would import torch and transformers for checks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.checks.check import Check
from patchgen_core.checks.kept.asking import watch_code
from patchgen_core.checks.session import Session
from patchgen_core.errors import PatchgenError
from patchgen_core.files import read_text, write_files
from patchgen_core.project.cache_folder import cache_folder, prepare_folder
from patchgen_core.project.project import Project
from patchgen_core.workers.fork_request import ENVIRONMENT
from patchgen_core.workers.fork_server import ForkServer
from patchgen_core.workers.machine import has_accelerator
from patchgen_core.workers.process import end_process, fork_process
from patchgen_core.workers.search_path import start_path

_ANSWERING = "patchgen_core.checks.model_process.answering"
_HANDLER = f"{_ANSWERING}:answer"
_LENT = "fork-server"
"""The file of a project's cache that names the server of a watch."""
IMPORT_TORCH = f"{_ANSWERING}:import_torch"
"""What all of them begin with."""
_IMPORT_COMMON = f"{_ANSWERING}:import_common"
"""What comes next where there is no set-up, for models and for imports of generated modules alike."""
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
        _IMPORT_COMMON: IMPORT_TORCH,
        RUN_MODELS: _IMPORT_COMMON,
        RUN_RANKS: RUN_MODELS,
        IMPORT_MODULES: _IMPORT_COMMON,  # which finds triton as it is without its interpreter
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
    """Have processes forked that would import torch: from the server of a watch over the project, where its processes
    are what would be started here, or from one that ends with the session. Where there is one already, or this machine
    has what cannot be forked, nothing is done."""
    watch_code(session)
    if session.fork_server is None:
        lent = borrow_server(session.home) if session.home is not None else None
        session.fork_server = lent or start_fork_server()


def begin_imports(session: Session, checks: Iterable[Check]) -> None:
    """Have a fork server import at once what checks need that run ahead, beside each other; without one, each process
    imports for itself."""
    ahead = [check for check in dict.fromkeys(checks) if check.runs_ahead]
    if ahead:
        share_imports(session)
    if session.fork_server is not None and session.home is not None:
        for check in ahead:
            check.prepare(session.home)


class LentServer:
    """The fork server of another process, which the environment names until :meth:`close`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        os.environ[ENVIRONMENT] = folder

    def close(self) -> None:
        """Leave it."""
        if os.environ.get(ENVIRONMENT) == self._folder:
            del os.environ[ENVIRONMENT]


@dataclass(frozen=True)
class Offer:
    """What tells other processes of a project about a server: a file of its cache."""

    file: Path
    folder: str

    def withdraw(self) -> None:
        """Tell them no more; an offer that somebody has made since stands."""
        with contextlib.suppress(PatchgenError, OSError):
            if read_text(self.file) == self.folder:
                self.file.unlink()


def lend_server(server: ForkServer, project: Project) -> Offer:
    """Offer a server that has been started to other processes of a project; where nothing can be written, none of them
    gets to know."""
    cache = cache_folder(project)
    offer = Offer(cache / _LENT, server.folder)
    with contextlib.suppress(PatchgenError):
        prepare_folder(cache)
        write_files([(offer.file, offer.folder)])
    return offer


def borrow_server(project: Project) -> LentServer | None:
    """The server that another process of a project offers; None where there is none, or where what it forks would be
    another process than what is started here. A preparation that goes on is waited for."""
    if ENVIRONMENT in os.environ:
        return None
    try:
        folder = read_text(cache_folder(project) / _LENT)
    except PatchgenError:
        return None
    if not folder:
        return None
    with open(os.devnull, "wb") as nowhere:
        process = fork_process(_HANDLER, start_path(project.import_roots), nowhere.fileno(), IMPORT_TORCH, folder)
    if process is None:
        return None
    end_process(process)
    return LentServer(folder)
