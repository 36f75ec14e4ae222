"""Asking pip for releases, and for their wheels."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from patchgen_core.errors import PatchgenError
from patchgen_core.upstream.versions import ascending, nearest, newest

TIME_LIMIT = 300
"""Seconds that pip may take."""

WITHOUT_NETWORK = "give a wheel with --wheel FILE or sources with --source DIR"
"""What to do where pip is of no help, as part of a sentence."""

_UNWANTED = ("CONSTRAINT", "BUILD_CONSTRAINT", "REQUIREMENT", "REQUIRE_HASHES", "QUIET", "VERBOSE")
"""Settings of pip's that are for what a project installs, or that hide what pip says."""

_AVAILABLE = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
_FOUND = re.compile(r"\(from versions: ([^)]*)\)")
_FAILED = re.compile(r"Could not fetch URL (\S+): (?!(?:403|404|410) Client Error)")
"""An index that did not answer, of which pip tells only where it is asked to tell more. One that lacks a
distribution says so, as 404."""

_ALWAYS = ("-vv", "--no-input", "--disable-pip-version-check", "--no-color")
_WHEELS_ONLY = ("--only-binary", ":all:", "--ignore-requires-python")


def published_versions(distribution: str) -> tuple[str, ...]:
    """All versions of a distribution that pip finds wheels of, ascending, release candidates and the like included.

    Raises:
        PatchgenError: pip finds none, cannot reach one of its indexes, or cannot run.
    """
    done = _pip("index", "versions", distribution, "--pre", *_WHEELS_ONLY)
    listed = _AVAILABLE.search(done.stdout)
    if done.returncode or listed is None or _unreached(done):
        message = f"pip cannot list the releases of {distribution}{_why(done)}"
        raise PatchgenError(message, hint=_hint(done))
    return ascending(listed[1].replace(",", " ").split())


def download_wheel(distribution: str, version: str, folder: Path) -> Path:
    """Download the wheel of a release into an empty folder; returns its file.

    Raises:
        PatchgenError: there is no such release, or pip cannot get it.
    """
    requirement = f"{distribution}=={version}"
    done = _pip("download", requirement, "--no-deps", *_WHEELS_ONLY, "--dest", str(folder), "--progress-bar", "off")
    wheels = list(folder.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    listed = _FOUND.search(done.stderr)
    versions = listed[1].replace(",", " ").split() if listed else []
    near = nearest(version, versions)
    if near and not _unreached(done):
        message = f"pip finds no wheel of {distribution} {version}"
        raise PatchgenError(message, hint=f"The nearest: {' and '.join(near)}; the newest: {newest(versions)}.")
    raise PatchgenError(f"pip cannot download {distribution} {version}{_why(done)}", hint=_hint(done))


def _pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    import os
    import sys

    env = {name: value for name, value in os.environ.items() if name not in {f"PIP_{key}" for key in _UNWANTED}}
    command = [sys.executable, "-m", "pip", *arguments, *_ALWAYS]
    hint = f"Look at the network, or {WITHOUT_NETWORK}."
    try:
        return subprocess.run(
            command,
            env={**env, "PYTHONSAFEPATH": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=TIME_LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise PatchgenError(f"pip was stopped after {TIME_LIMIT} seconds", hint=hint) from None
    except OSError as error:
        raise PatchgenError(f"pip cannot run: {error.strerror}", hint=hint) from None


def _unreached(done: subprocess.CompletedProcess[str]) -> str:
    """The host of an index that pip could not ask; empty when it could."""
    from urllib.parse import urlsplit

    failure = _FAILED.search(done.stdout) or _FAILED.search(done.stderr)
    return (urlsplit(failure[1]).hostname or failure[1]) if failure else ""


def _why(done: subprocess.CompletedProcess[str]) -> str:
    """What pip said: what it could not reach, or its last error or line."""
    if _is_missing(done):
        return ": this Python has no pip"
    host = _unreached(done)
    if host:
        return f": it cannot reach {host}"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    reason = (errors or lines or [f"it ended with exit code {done.returncode}"])[-1]
    return f": {reason.rstrip('.')}"


def _hint(done: subprocess.CompletedProcess[str]) -> str:
    import sys

    if _is_missing(done):
        return f"Install it, as with '{sys.executable} -m ensurepip', or {WITHOUT_NETWORK}."
    return f"Look at pip's settings and at the network, or {WITHOUT_NETWORK}."


def _is_missing(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode != 0 and "No module named pip" in done.stderr
