"""Running git: an argument vector, no shell, no prompt, a time limit, and credentials that nobody can read off."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from patchgen_service.git.errors import GitError, classify_error

_PASSED_ON = (
    "PATH",
    "HOME",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
)
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.symlinks": "true",
    "core.quotePath": "false",
    "credential.helper": "",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",  # a commit that a run was for stays, whatever became of its branch
    "maintenance.auto": "false",
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "60",
    "advice.detachedHead": "false",
    "user.useConfigOnly": "true",
}
_SECRET = re.compile(r"(://)[^/@\s]+@")


@dataclass(frozen=True)
class Remote:
    """Where a repository is, and how git gets in.

    Attributes:
        url: https, http, ssh, git or file URL, ``host:path``, or a path.
        token: a password or access token for http, or what gives the one of this moment; empty for none.
        user: the name that goes with it; forges that look at the token alone take any.
    """

    url: str
    token: str | Callable[[], str] = field(default="", repr=False)
    user: str = "x-access-token"

    @property
    def title(self) -> str:
        """Its address without credentials."""
        return hide_secrets(self.url)

    def read_token(self) -> str:
        """The token of this moment; a GitError where there should be one and none is to be had."""
        return self.token if isinstance(self.token, str) else self.token()

    def make_settings(self) -> dict[str, str]:
        """git's settings that send the token to this address alone."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not (token := self.read_token()):
            return {}
        origin = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "/", "", ""))
        credentials = base64.b64encode(f"{self.user}:{token}".encode()).decode()
        return {f"http.{origin}.extraHeader": f"Authorization: Basic {credentials}"}


def hide_secrets(text: str) -> str:
    """A text without the user names and passwords of the addresses in it."""
    return _SECRET.sub(r"\1", text)


def run_git(
    arguments: Sequence[str],
    remote: Remote | None = None,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    seconds: float = 120,
    held: Sequence[int] = (),
    accepted: Sequence[int] = (0,),
) -> subprocess.CompletedProcess[bytes]:
    """Run ``git`` with arguments. Credentials go through its environment.

    Args:
        arguments: the subcommand and its arguments, after ``--git-dir`` and the like.
        held: file descriptors that git keeps open as long as it lives, such as a lock's.
        accepted: exit codes that are answers.

    Raises:
        GitError: it ended otherwise, or took too long; whatever it had started is gone.
    """
    command = ["git", *arguments]
    title = remote.title if remote else ""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**make_environment(remote), **(environment or {})},
            start_new_session=True,
            pass_fds=tuple(held),
        )
    except OSError as error:
        raise GitError("other", str(error), title, f"git cannot be started: {error.strerror}.") from error
    try:
        output, complaint = process.communicate(stdin, timeout=seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        raise GitError("time", f"more than {seconds:.0f} seconds", title) from None
    except BaseException:
        _end(process)
        raise
    if process.returncode not in accepted:
        text = clean_output(complaint + b"\n" + output, remote)
        raise GitError(classify_error(text), text, title)
    return subprocess.CompletedProcess(command, process.returncode, output, complaint)


def make_environment(remote: Remote | None) -> dict[str, str]:
    """git's whole environment: nobody's own settings, no questions, and only what it needs of the service's."""
    settings = {**_SETTINGS, **(remote.make_settings() if remote else {})}
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= {
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_CONFIG_COUNT": str(len(settings)),
    }
    for index, (key, value) in enumerate(settings.items()):
        environment |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return environment


def clean_output(output: bytes, remote: Remote | None = None) -> str:
    """What git wrote, as text of at most 2000 characters without secrets."""
    text = hide_secrets(output.decode("utf-8", "replace").strip())
    token = remote.read_token() if remote else ""
    return (text.replace(token, "…") if token else text)[-2000:]


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
