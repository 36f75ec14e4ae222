"""What a process asks of a fork server, and what must be the same on both sides for it to be served."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import struct
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from itertools import zip_longest
from pathlib import Path
from types import ModuleType

from patchgen_core.files import FileState, file_state
from patchgen_core.workers.variables import HARMLESS

ENVIRONMENT = "PATCHGEN_FORK_SERVER"
"""Variable with the folder of the sockets of a running fork server."""
CONNECTIONS = 64
"""How many askers may wait for a fork server."""
NUMBER = struct.Struct("!i")
"""How a minder tells its asker two things: the worker's process id, or 0 and why it forks none, and later its exit
code."""

_OF_THE_PROCESS = re.compile(r"^(?:Umask|Uid|Gid|Groups|CapEff|CapBnd|NoNewPrivs|Seccomp):.*", re.MULTILINE)
_SIGNALS = re.compile(r"^(SigBlk|SigIgn):\s*(\w+)", re.MULTILINE)
_OF_THE_C_LIBRARY = 0b11 << 31
"""Signals 32 and 33, which glibc handles from the first thread on, whatever was inherited."""
_READ_BY_NO_IMPORT = re.compile(
    r"(?:PYTEST|PATCHGEN|GITHUB|GLOO)_.*|_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR|CI|BUILD_NUMBER|PYTHONPATH"
    r"|TORCHINDUCTOR_CACHE_DIR"  # which is read before each compilation, and set by an asker that imports transformers
)
"""The environment variables that may differ beside those of a terminal; gloo's and the inductor's are set by a process
that has run models. All others are the same where a process is forked: torch, transformers and what they import read
some five hundred when they are imported, of sixty packages."""
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")

Origin = tuple[str, ...]
"""Where a module comes from: its file, or the folders of one that has no file."""


@dataclass(frozen=True)
class ProcessTraits:
    """What a process hands down to those that it starts, beside its environment, and what runs in it.

    Attributes:
        inherited: in lines, limits, rights, umask, namespaces and so on, as the system tells.
    """

    executable: str
    version: str
    prefix: str
    inherited: tuple[str, ...]

    def find_difference(self, other: ProcessTraits) -> str:
        """The first trait that is not that of another process; empty where there is none."""
        pairs = zip_longest(self._texts(), other._texts())
        return next((f"'{own}' instead of '{others}'" for own, others in pairs if own != others), "")

    def _texts(self) -> tuple[str, ...]:
        return (self.executable, self.version, self.prefix, *self.inherited)


@dataclass(frozen=True)
class ForkRequest:
    """A process that somebody wants: the handler of its requests, and what it is to find around it.

    Attributes:
        processors: those that it may run on, as what its asker starts; none where the system does not tell.
    """

    handler: str
    path: tuple[str, ...]
    environment: Mapping[str, str]
    traits: ProcessTraits
    processors: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Imports:
    """What a fork server has imported, and where.

    Attributes:
        before: its environment when it was started.
        after: its environment now.
        modules: by name, where each top-level module was found; None for one that was looked for in vain.
        files: of all modules, as they were when these had been imported.
    """

    before: Mapping[str, str]
    after: Mapping[str, str]
    modules: Mapping[str, Origin | None]
    files: Mapping[str, FileState | None]

    def find_difference(self, request: ForkRequest) -> str:
        """Why what was asked for would be another process if it were forked; empty where it would be the same."""
        if difference := request.traits.find_difference(describe_process()):
            return difference
        for name in sorted({*self.before, *self.after, *request.environment}):
            value = request.environment.get(name)
            if may_be_read(name) and value not in (self.before.get(name), self.after.get(name)):
                return f"another {name}"
        origins = find_origins(self.modules, request.path)
        if difference := next((f"another {name}" for name, own in self.modules.items() if origins[name] != own), ""):
            return difference
        return next((f"{file} has changed" for file, state in self.files.items() if file_state(file) != state), "")


def describe_process() -> ProcessTraits:
    """The traits of this process."""
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    inherited = (
        *_OF_THE_PROCESS.findall(status),
        *(f"{name}: {int(mask, 16) & ~_OF_THE_C_LIBRARY:x}" for name, mask in _SIGNALS.findall(status)),
        *Path("/proc/self/limits").read_text(encoding="utf-8").splitlines(),
        *Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines(),
        *(os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES),
        f"nice {os.getpriority(os.PRIO_PROCESS, 0)}",
    )
    return ProcessTraits(sys.executable, sys.version, sys.prefix, inherited)


def may_be_read(name: str) -> bool:
    """Whether importing something may depend on an environment variable, the search path apart."""
    return _READ_BY_NO_IMPORT.fullmatch(name) is None and HARMLESS.fullmatch(name) is None


def find_origins(names: Iterable[str], path: Iterable[str]) -> dict[str, Origin | None]:
    """Where a search path has top-level modules, none of which is imported; None where it has not."""
    folders = list(path)
    return {name: _find_origin(name, folders) for name in names}


def _find_origin(name: str, path: list[str]) -> Origin | None:
    spec = PathFinder.find_spec(name, path)
    if spec is None:
        return None
    return (spec.origin,) if spec.has_location and spec.origin else tuple(spec.submodule_search_locations or ())


def find_module_files() -> dict[str, FileState | None]:
    """The files of all modules that this process has imported, and what they look like."""
    modules = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    files = (vars(module).get("__file__") for module in modules)  # without asking a module that imports when asked
    return {file: file_state(file) for file in files if isinstance(file, str)}


def socket_path(folder: str, preparation: str) -> str:
    """The socket of a fork server's processes that have done a preparation."""
    return os.path.join(folder, hashlib.sha256(preparation.encode()).hexdigest()[:12])


def is_own_user(connection: socket.socket) -> bool:
    """Whether the process at the other end is of the user that this one is of."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.getuid())


def receive_number(connection: socket.socket, flags: int = 0) -> int | None:
    """The next number that a minder tells; None when it has ended."""
    data = connection.recv(NUMBER.size, flags | socket.MSG_WAITALL)
    return NUMBER.unpack(data)[0] if len(data) == NUMBER.size else None
