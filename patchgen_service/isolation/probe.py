"""Whether commands can be isolated on this machine: tried, not guessed."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_service.isolation.box import Box, Kind, Limits, python_folders
from patchgen_service.isolation.commands import EMPTY_ROOT
from patchgen_service.isolation.process import run_command

_SECRET = "PATCHGEN_PROBE_SECRET"
_TRIES = """
import json, os, socket, sys
folder, port, secret = sys.argv[1], int(sys.argv[2]), sys.argv[3]
escapes = []
def attempt(what, action):
    try:
        action()
    except OSError:
        return
    escapes.append(what)
attempt("it reads files outside", lambda: open(os.path.join(folder, "outside")).read())
attempt("it writes to a folder that is only to be read", lambda: open(os.path.join(folder, "inside", "new"), "w"))
attempt("it writes to the system", lambda: open("/usr/patchgen-probe", "w"))
attempt("it writes beside the system", lambda: open("/patchgen-probe", "w"))
attempt("it opens connections", lambda: socket.create_connection(("127.0.0.1", port), 2))
if os.environ.get(secret):
    escapes.append("it sees the environment of the service")
if len([entry for entry in os.listdir("/proc") if entry.isdigit()]) > 8:
    escapes.append("it sees other processes")
open("/tmp/own", "w").close()
print(json.dumps({"inside": open(os.path.join(folder, "inside", "file")).read(), "escapes": escapes}))
"""


@dataclass(frozen=True)
class Isolation:
    """How commands are isolated here; ``problems`` say why not otherwise, a sentence for each way that was tried."""

    kind: Kind
    problems: tuple[str, ...] = ()

    @property
    def is_safe(self) -> bool:
        """Whether code that nobody vouches for may run."""
        return self.kind != "none"


class NotIsolated(Exception):
    """Code may not run here, because it would run without isolation."""


def find_isolation(kinds: Sequence[Kind] = ("bubblewrap", "podman")) -> Isolation:
    """The first kind that keeps a command from all that it must not do; tries them for real."""
    problems: list[str] = []
    for kind in kinds:
        problem = probe(kind)
        if not problem:
            return Isolation(kind, tuple(problems))
        problems.append(f"{kind}: {problem}")
    return Isolation("none", tuple(problems))


def choose_isolation(isolation: Isolation, is_trusted: bool) -> Kind:
    """How the code of a repository is run; NotIsolated where it is not trusted and cannot be isolated."""
    if isolation.is_safe or is_trusted:
        return isolation.kind
    why = "; ".join(isolation.problems) or "no way is allowed"
    raise NotIsolated(
        f"Code of this repository is not run, because this machine cannot isolate it ({why}). "
        "Install bubblewrap or podman, or mark the repository as trusted."
    )


def probe(kind: Kind) -> str:
    """Why a kind of isolation does not hold here; empty where it does."""
    if kind == "none":
        return "it isolates nothing"
    EMPTY_ROOT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as server:
        folder, content = Path(name), secrets.token_hex()
        (folder / "inside").mkdir()
        (folder / "inside" / "file").write_text(content)
        (folder / "outside").write_text(content)
        inside = folder / "inside"
        box = Box(inside, {**python_folders(), inside: inside}, limits=Limits(seconds=20))
        arguments = ["-I", "-S", "-c", _TRIES, name, str(server.getsockname()[1]), _SECRET]
        os.environ[_SECRET] = content
        lines: list[bytes] = []
        try:
            exit = run_command(kind, box, [sys.executable, *arguments], lines.append)
        except OSError as error:
            return f"it cannot be started: {error.strerror}"
        finally:
            del os.environ[_SECRET]
    return _judge(lines, content, exit.message or exit.tail.strip())


def _judge(lines: Sequence[bytes], content: str, otherwise: str) -> str:
    try:
        answer = json.loads(lines[-1])
    except (IndexError, ValueError):
        return otherwise.splitlines()[-1] if otherwise else "it ended without a message"
    if answer["inside"] != content:
        return "it does not show what it should"
    return ", and ".join(answer["escapes"])
