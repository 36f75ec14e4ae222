"""Starts a process that has imported what is slow to import, from which others are forked that would import it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack

from patchgen_core.workers.fork_request import CONNECTIONS, ENVIRONMENT, socket_path
from patchgen_core.workers.scratch import scratch_folder
from patchgen_core.workers.search_path import start_path

_START = """
import sys
folder, listeners, *sys.path = sys.argv[1:]
del sys.argv[1:]
from patchgen_core.workers.fork_loop import fork_workers
from patchgen_core.workers.loop import serve
handler = fork_workers(folder, listeners)
del folder, listeners, fork_workers
serve(handler)
"""
CAN_FORK = sys.platform == "linux"
_SECONDS_TO_END = 10.0


class ForkServer:
    """A process that forks workers; a context manager that ends it, and which it does not outlive.

    Where it is stands in an environment variable, while it runs, for this process and those that it starts. A
    :class:`~patchgen_core.workers.worker.Worker` asks it; it answers to nobody but this user. It costs little until
    then: a preparation is done when somebody first asks for a process that has done it.

    Args:
        preparations: ``package.module:function`` of what processes have done that are forked: importing, and nothing
            that starts a thread or takes hold of a device. For each the one that it goes on from, which comes before
            it; empty for none. What several go on from is done once for all of them.
        is_announced: whether the environment tells other processes of it.
    """

    def __init__(self, preparations: Mapping[str, str], is_announced: bool = True) -> None:
        self.folder = ""
        self._preparations, self._is_announced = dict(preparations), is_announced
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ForkServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> bool:
        """Start the process; whether that was done. There may be one already, or this system may not have what it
        takes."""
        if not CAN_FORK or (self._is_announced and ENVIRONMENT in os.environ):
            return False
        # nobody else may look into it
        self.folder = tempfile.mkdtemp(prefix="patchgen-fork-", dir=scratch_folder())
        try:
            with ExitStack() as stack:
                listeners = [(self._listen(stack, name), name, base) for name, base in self._preparations.items()]
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _START, self.folder, json.dumps(listeners), *start_path()],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[number for number, _, _ in listeners],
                    start_new_session=True,
                )
        except OSError:  # such as a name that is too long for a socket
            self.close()
            return False
        if self._is_announced:
            os.environ[ENVIRONMENT] = self.folder
        return True

    def _listen(self, stack: ExitStack, preparation: str) -> int:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(socket_path(self.folder, preparation))
        listener.listen(CONNECTIONS)
        return listener.fileno()

    def close(self) -> None:
        """End the process; workers that were forked from it go on."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(_SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self.folder:
            if os.environ.get(ENVIRONMENT) == self.folder:
                del os.environ[ENVIRONMENT]
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = ""
