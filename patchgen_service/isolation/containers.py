"""Containers of podman: whose they are, and the end of those whose process was killed before it could end them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

LABEL = "patchgen.process"
_START_TIME = 19
"""Where ``/proc/PID/stat`` has it, counted from behind the name of the program."""


def own_label() -> str:
    """The label of containers of this process."""
    return f"{LABEL}={_name_process(os.getpid())}"


def remove_container(name: str) -> None:
    """Remove a container, which may have ended long since, with all that runs in it."""
    _run_podman("rm", "--force", "--ignore", "--time=0", name)


def remove_orphans() -> list[str]:
    """Remove the containers whose process is gone, and return their names.

    Those of processes that cannot be seen from here are left to their time limit.
    """
    answer = _run_podman("ps", "--all", f"--filter=label={LABEL}", "--format=json")
    try:
        containers = json.loads(answer or "[]")
        owners = {container["Names"][0]: container["Labels"][LABEL] for container in containers}
    except (ValueError, LookupError, TypeError):
        return []
    orphans = [name for name, owner in owners.items() if _is_gone(owner)]
    for name in orphans:
        remove_container(name)
    return orphans


def _is_gone(owner: str) -> bool:
    """Whether the process of a label has ended; one of another namespace of processes may be there."""
    namespace, _, rest = owner.partition("-")
    pid = rest.partition("-")[0]
    return namespace == _name_namespace() and pid.isdecimal() and _name_process(int(pid)) != owner


def _name_process(pid: int) -> str:
    """What no other process of this machine is called, now or later; without its start where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        fields = [""] * (_START_TIME + 1)
    return f"{_name_namespace()}-{pid}-{fields[_START_TIME]}"


def _name_namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _run_podman(*arguments: str) -> str:
    """What podman prints; nothing where it cannot be started."""
    try:
        done = subprocess.run(["podman", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout
