"""The state of the machine that checks run on, by name: interpreter, processor, devices, environment, packages."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from patchgen_core.checks.kept.packages import package_states, search_path
from patchgen_core.files import digest

HARMLESS = re.compile(
    r"_|PWD|OLDPWD|SHLVL|TERM|TERM_PROGRAM(_VERSION)?|COLORTERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR(_FORCE)?"
    r"|PY_COLORS|LS_COLORS|PS1|PS2|EDITOR|VISUAL|PAGER|LESS\w*|MAIL|WINDOWID|DISPLAY|WAYLAND_DISPLAY|SSH_\w+|TMUX\w*"
    r"|STY|XDG_SESSION_\w+|DBUS_\w+|VSCODE_\w+|GIT_\w+|GITHUB_(RUN_\w+|SHA|REF\w*|ENV|OUTPUT|PATH|STATE|STEP_SUMMARY)"
    r"|PYTEST_(CURRENT_TEST|VERSION|XDIST_\w+)|PATCHGEN_(FORK_SERVER|CACHE_DIR|JOBS|KEEP_CHECKS|BENCHMARK_PHASES)"
)
"""The environment variables that no model, kernel or import reads; every other one is part of the state. One of these
counts as well where the project's own text names it."""
_CPU = re.compile(r"^(model name|flags|Features|CPU implementer|CPU part)\s*:.*", re.MULTILINE)
_DEVICES = ("nvidia", "davinci", "kfd", "dxg", "accel")
"""The beginnings of the names that accelerators have in ``/dev``."""


def machine_states(own_roots: Iterable[Path], base: Path) -> dict[str, str]:
    """The states of a machine for a project below ``base`` whose modules lie in ``own_roots``; no value of an
    environment variable is in it.

    Raises:
        TooManyFiles: a folder of ``sys.path`` has too many files.
    """
    own_roots = tuple(own_roots)
    packages = package_states(own_roots, base)
    return {
        "python": f"{sys.version} {sys.executable} {tuple(sys.flags)} {sys.platform}",
        "processor": _processor(),
        "devices": " ".join(_devices()),
        "working directory": os.getcwd(),
        "search path": _short(repr(search_path(own_roots))),
        **{f"variable {name}": _short(value) for name, value in os.environ.items() if not HARMLESS.fullmatch(name)},
        **{f"package {name}": state for name, state in packages.items()},
    }


def variable_state(name: str) -> str | None:
    """The state of one environment variable; None where it is not set."""
    value = os.environ.get(name)
    return None if value is None else _short(value)


def _short(value: str) -> str:
    return digest(value.encode("utf-8", "surrogateescape"))[:12]


def _processor() -> str:
    lines = {match[0] for match in _CPU.finditer(_read("/proc/cpuinfo"))}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    kind = digest("\n".join(sorted(lines)).encode())[:12]
    return f"{platform.machine()} {kind} {cores} of {os.cpu_count()} {_c_library()}"


def _c_library() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        return ""


def _devices() -> Iterator[str]:
    """The accelerators of the machine and the versions of their drivers, as far as the system tells without them."""
    try:
        names = sorted(name for name in os.listdir("/dev") if name.startswith(_DEVICES))
    except OSError:
        names = []
    yield from names
    for file in ("/proc/driver/nvidia/version", "/sys/module/amdgpu/version", "/usr/local/Ascend/driver/version.info"):
        if text := _read(file):
            yield _short(text)
    for folder in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        yield _short(_read(str(folder)))


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
