"""The life of a worker: it answers the requests that come on standard input, one after the other."""

from __future__ import annotations

import faulthandler
import importlib
import os
import pickle
import signal
import sys
import threading
from queue import SimpleQueue

from patchgen_core.errors import PatchgenError
from patchgen_core.workers.frames import read_frame, write_frame
from patchgen_core.workers.generated_modules import import_generated_modules_from_text
from patchgen_core.workers.opened_files import list_opened_files, watch_opened_files
from patchgen_core.workers.phases import take
from patchgen_core.workers.scratch import remove_scratch_folder, use_scratch_folder
from patchgen_core.workers.watched_code import list_noted, watch_code

_PR_SET_PDEATHSIG = 1


def serve(handler: str) -> None:
    """Answer requests with ``handler``, a ``package.module:function``, until the process that asks is gone.

    A PatchgenError that it raises is raised where the request came from; any other exception ends this process.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no answer
    _dump_stack_at_death()
    import_generated_modules_from_text()
    watch_opened_files()
    watch_code()
    requests = _read_requests()
    module, _, name = handler.partition(":")
    while True:
        sys.path[:], scratch, request = pickle.loads(requests.get())
        use_scratch_folder(scratch)
        try:
            answer_to = getattr(importlib.import_module(module), name)
            answer, problems = answer_to(request), None
        except PatchgenError as error:
            answer, problems = None, error.problems
        write_frame(answers, (answer, problems, take(), [*list_opened_files(), *list_noted()]))


def _read_requests() -> SimpleQueue[bytes]:
    """The requests as they come. When the process that asks is gone, so is this one, whatever it is doing."""
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the requests are not for a module, or its debugger, to read
    frames: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        for frame in iter(lambda: read_frame(requests), None):
            frames.put(frame)
        remove_scratch_folder()
        if hasattr(os, "killpg"):
            os.killpg(0, signal.SIGKILL)  # with its children
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    return frames


def _dump_stack_at_death() -> None:
    """Write what this process is doing to standard error when it crashes, or is about to be killed for being late.

    All threads, since it may crash in one that runs no Python, as gloo does when ranks send what others do not expect.
    """
    faulthandler.enable()
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, all_threads=False)


def end_with_parent() -> None:
    """Have this process, a fork, killed when its parent is gone: somebody may kill that one alone."""
    if sys.platform == "linux":
        import ctypes  # which a process that asks for imports need not load

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def dump_no_stack() -> None:
    """Undo that where a child of this process does the work, of which this one's stack tells nothing."""
    faulthandler.disable()
    if hasattr(faulthandler, "unregister"):
        faulthandler.unregister(signal.SIGUSR1)
