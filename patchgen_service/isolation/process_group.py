"""A control group that holds how many processes a command has at once, where this process may make one."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path

_PARENTS = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
"""Of the first and of the second version of control groups."""
_JOIN = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
_SECONDS_TO_EMPTY = 5.0


class ProcessGroup:
    """The processes of one command, of which the kernel makes no more than the limit, threads included.

    Where no group can be made, which takes root or a delegated one, nothing is limited here.
    """

    def __init__(self, limit: int) -> None:
        self._folder = next((folder for parent in _PARENTS if (folder := _make(parent, limit)) is not None), None)

    def joining(self, command: list[str]) -> list[str]:
        """The argument vector that runs a command in the group, as the same process."""
        return command if self._folder is None else ["/bin/sh", "-c", _JOIN, str(self._folder), *command]

    def was_full(self) -> bool:
        """Whether a process was refused because there were too many."""
        if self._folder is None:
            return False
        try:
            words = (self._folder / "pids.events").read_text().split()
        except OSError:
            return False
        return int(dict(zip(words[::2], words[1::2])).get("max", "0")) > 0

    def remove(self) -> None:
        """Remove the group, whose processes must be at their end."""
        deadline = time.monotonic() + _SECONDS_TO_EMPTY
        while self._folder is not None and time.monotonic() < deadline:
            try:
                self._folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:  # the last of them are being taken down
                time.sleep(0.02)
            else:
                return


def _make(parent: Path, limit: int) -> Path | None:
    """A new group, or None where it cannot be made or would limit nothing."""
    if not (parent / "cgroup.procs").exists():
        return None
    folder = parent / f"patchgen-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        folder.mkdir()
        (folder / "pids.max").write_text(str(limit))
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None
    return folder
