"""The life of a fork server: for each preparation it forks a process that does it, and forks workers from that.

A preparation that goes on from another one is done in a fork of the process that has done that.
A worker has a *minder*, its parent, that tells the asker how it ended. Neither needs the server any more.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pickle
import select
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import FrozenImporter
from typing import Any, NoReturn

from patchgen_core.workers.collector import without_collector
from patchgen_core.workers.fork_request import (
    NUMBER,
    ForkRequest,
    Imports,
    find_module_files,
    find_origins,
    is_own_user,
)
from patchgen_core.workers.frames import read_frame
from patchgen_core.workers.processors import keep_on_processors

DESCRIPTORS = 4
"""Standard input, output and error of a worker, and its working directory."""

_LIFE = 0  # the descriptor of a pipe that ends with who started the server


@dataclass(frozen=True)
class _Branch:
    """A preparation, the socket on which processes are asked for that have done it, and what goes on from it."""

    preparation: str
    listener: socket.socket
    below: list[_Branch] = field(default_factory=list)

    def list_listeners(self) -> list[socket.socket]:
        """Its socket, and those of all that goes on from it."""
        return [self.listener, *(listener for branch in self.below for listener in branch.list_listeners())]


def fork_workers(folder: str, listeners: str) -> str:
    """Serve until who started this is gone, on the sockets that were handed down.

    It returns in every worker, and there alone: the handler of its requests.

    Args:
        folder: of the sockets, which is removed in the end.
        listeners: JSON of the descriptor of each socket that was handed down, its preparation,
            ``package.module:function``, and the one that this goes on from, which comes before it.
    """
    branches: dict[str, _Branch] = {}
    roots: list[_Branch] = []
    for number, preparation, base in json.loads(listeners):
        branch = branches[preparation] = _Branch(preparation, socket.socket(fileno=number))
        (branches[base].below if base else roots).append(branch)
    return _serve(folder, roots)


def _serve(folder: str, branches: list[_Branch]) -> str:
    """Fork a process for a branch when somebody first asks for one of it, which goes on here with what is below, and
    a minder for every asker; returns in workers."""
    own: socket.socket | None = None
    imports: Imports | None = None
    children: set[int] = set()
    while True:
        listener = _wait_for_asker([*([own] if own else []), *_list_listeners(branches)])
        if listener is None:
            _end(children, folder)
        elif listener is own:
            connection, _ = listener.accept()
            _bury(children)
            if is_own_user(connection) and not os.fork():
                _close(listener, *_list_listeners(branches))
                assert imports is not None
                return _mind(connection, imports)
            connection.close()
        else:
            branch = next(branch for branch in branches if listener in branch.list_listeners())
            branches.remove(branch)
            if child := os.fork():
                children.add(child)
                _close(*branch.list_listeners())
            else:
                _close(*([own] if own else []), *_list_listeners(branches))
                imports = _prepare(branch.preparation, imports) or os._exit(1)
                folder, own, branches, children = "", branch.listener, branch.below, set()


def _list_listeners(branches: Iterable[_Branch]) -> list[socket.socket]:
    return [listener for branch in branches for listener in branch.list_listeners()]


def _wait_for_asker(listeners: Iterable[socket.socket]) -> socket.socket | None:
    """The socket on which somebody asks for a process; None when who started the server is gone."""
    sources: list[Any] = [_LIFE, *listeners]
    ready, _, _ = select.select(sources, [], [])
    return None if _LIFE in ready else ready[0]


def _bury(children: set[int]) -> None:
    """Take leave of the children that have ended, whose numbers may be others' from then on."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitpid(-1, os.WNOHANG)[0]:
            children.discard(ended)


def _end(children: Iterable[int], folder: str) -> NoReturn:
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _close(*listeners: socket.socket) -> None:
    for listener in listeners:
        listener.close()


class _Absent(MetaPathFinder):
    """Comes last, and notes the names of top-level modules that no other finder has."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:
        if path is None:
            self.names.add(fullname)


def _prepare(preparation: str, base: Imports | None) -> Imports | None:
    """What the preparation imports, and did before that it goes on from; None where no process may be forked after."""
    before = base.before if base is not None else dict(os.environ)
    absent = _Absent()
    sys.meta_path.append(absent)
    try:
        with without_collector():
            module, _, name = preparation.partition(":")
            getattr(importlib.import_module(module), name)()
    except Exception:  # whoever wants it will see in a process of its own
        return None
    finally:
        sys.meta_path.remove(absent)
    gc.freeze()
    if not is_so_in_child(lambda: True) or len(os.listdir("/proc/self/task")) > 1:  # OpenBLAS's end when it forks
        return None
    inside = {*sys.builtin_module_names, "__main__"}
    names = {name.partition(".")[0] for name in sys.modules} | absent.names | {"sitecustomize", "usercustomize"}
    names |= base.modules.keys() if base is not None else set()
    compared = sorted(name for name in names - inside if not FrozenImporter.find_spec(name))
    return Imports(before, dict(os.environ), find_origins(compared, sys.path), find_module_files())


def is_so_in_child(is_so: Callable[[], bool]) -> bool:
    """Whether it is so in a child, so that this process does not start what cannot be forked."""
    child = os.fork()
    if not child:
        answer = False
        try:
            answer = is_so()
        finally:
            os._exit(0 if answer else 1)
    return os.waitpid(child, 0)[1] == 0


def _mind(connection: socket.socket, imports: Imports) -> str:
    """Fork the worker that is asked for, and stay until its asker has done with it; returns in the worker.

    A worker that has ended keeps its number until the asker closes the connection: nobody else's process has it when
    the asker kills what its group has left.
    """
    _, descriptors, _, _ = socket.recv_fds(connection, 1, DESCRIPTORS)
    if not descriptors:  # somebody wanted nothing but the preparation, or has ended
        os._exit(0)
    with connection.makefile("rb") as stream:
        request: ForkRequest = pickle.loads(read_frame(stream) or os._exit(1))
    sys.path_importer_cache.clear()  # of folders that may have come to be since
    if difference := imports.find_difference(request):
        connection.sendall(NUMBER.pack(0) + difference.encode())
        os._exit(0)
    is_ready, ready = os.pipe()
    worker = os.fork()
    if not worker:
        os.setsid()
        for closed in (is_ready, ready, connection.detach()):
            os.close(closed)
        _become_worker(request, imports, descriptors)
        return request.handler
    for descriptor in (ready, *descriptors):
        os.close(descriptor)
    os.read(is_ready, 1)  # which ends when the worker leads a group of its own
    with contextlib.suppress(OSError):  # the asker has ended, and the worker is about to
        connection.sendall(NUMBER.pack(worker))
        connection.sendall(NUMBER.pack(_wait_for(worker)))
        connection.recv(1)
    os.waitpid(worker, 0)
    os._exit(0)


def _wait_for(worker: int) -> int:
    end = os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)
    assert end is not None
    return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status


def _become_worker(request: ForkRequest, imports: Imports, descriptors: Sequence[int]) -> None:
    """Have around what a process has that the asker starts."""
    keep_on_processors(0, request.processors)
    *streams, folder = descriptors
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.fchdir(folder)
    for descriptor in descriptors:
        os.close(descriptor)
    changes = {name: value for name, value in imports.after.items() if imports.before.get(name) != value}
    os.environ.clear()
    os.environ.update({**request.environment, **changes})
    if (numpy_random := sys.modules.get("numpy.random")) is not None:
        numpy_random.seed()
