"""The state of the machine that checks run on, by name: interpreter, processor, devices, environment, packages."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from patchgen_core.checks.kept.packages import package_states, search_path
from patchgen_core.files import digest
from patchgen_core.workers.processors import count_cpus
from patchgen_core.workers.variables import HARMLESS

_STARTED_BY = re.compile(
    r"MAKE\w*|MFLAGS|_?PYENV_\w+|VIRTUAL_ENV(_\w+)?|PYTHONDONTWRITEBYTECODE|PYTHONUNBUFFERED|INVOCATION_ID"
    r"|JOURNAL_STREAM|SUDO_\w+|HISTFILE|HISTSIZE"
)
"""The environment variables that only say what started a process: make, or a shell in which an environment is active.
One of these counts where the project's own text names it."""
PERSONAL = re.compile(
    _STARTED_BY.pattern + r"|PATH|MANPATH|INFOPATH|HOME|USER|USERNAME|LOGNAME|HOSTNAME|HOST|SHELL|TMPDIR|TEMP|TMP|LANG"
    r"|LANGUAGE|LC_\w+|TZ|CONDA_\w+|UV_\w+|PIP_\w+|POETRY_\w+|PYTHONPATH|PYTHONPYCACHEPREFIX|XDG_\w+|CI|CI_\w+"
    r"|GITHUB_\w+|GITLAB_\w+|RUNNER_\w+|BUILDKITE\w*|JENKINS_\w+|BUILD_\w+|CIRCLE\w*|AGENT_\w+|ACTIONS_\w+|SYSTEMD_\w+"
    r"|WSL\w*|EUID|UID|DEBIAN_FRONTEND|LS_OPTIONS|AWS_\w+|GOOGLE_\w+|AZURE_\w+|FSSPEC_\w+|PYTEST_ADDOPTS"
    r"|PATCHGEN_SHARED_CACHE(_WRITE)?|BASH_\w+|ZSH|ZDOTDIR|KUBERNETES_\w+|container|HF_TOKEN|NO_PROXY|\w+_PROXY|\w+_proxy"
)
"""Those, and the ones that machines which share results may have otherwise: they belong to a user, a machine or a CI
job. One of these counts as well where the project's own text names it."""
_CPU = re.compile(r"^(model name|flags|Features|CPU implementer|CPU part)\s*:.*", re.MULTILINE)
_VENDOR = re.compile(r"^(vendor_id|CPU implementer)\s*:.*", re.MULTILINE)
_VECTORS = re.compile(r"\b(?:avx\w*|amx\w*|fma\w*|f16c|sse4\w*|asimd\w*|sve\w*|sme\w*|bf16|i8mm)\b")
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
        "python": f"{interpreter()} {sys.executable}",
        "processor": _processor(),
        "devices": " ".join(_devices()),
        "working directory": os.getcwd(),
        "search path": short_state(repr(search_path(own_roots))),
        **{
            f"variable {name}": short_state(_without_own_programs(value) if name == "PATH" else value)
            for name, value in os.environ.items()
            if not HARMLESS.fullmatch(name) and not _STARTED_BY.fullmatch(name)
        },
        **{f"package {name}": state for name, state in packages.items()},
    }


def interpreter() -> str:
    """What an interpreter is, wherever it lies and whether it writes bytecode or not."""
    flags = [name for name in type(sys.flags).__match_args__ if name != "dont_write_bytecode"]
    return f"{sys.version} {[getattr(sys.flags, name) for name in flags]} {sys.platform}"


def _without_own_programs(path: str) -> str:
    """A search path of programs without those beside the interpreter, which are there in an active environment."""
    own = os.path.realpath(os.path.dirname(sys.executable))
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if os.path.realpath(folder) != own)


def counts_where_named(name: str, ignored: Iterable[str]) -> bool:
    """Whether an environment variable is part of a state of the machine only where a text names it."""
    return bool(HARMLESS.fullmatch(name) or PERSONAL.fullmatch(name)) or any(
        fnmatchcase(name, each) for each in ignored
    )


def variable_state(name: str) -> str | None:
    """The state of one environment variable; None where it is not set."""
    value = os.environ.get(name)
    return None if value is None else short_state(value)


def short_state(value: str) -> str:
    """A hash that stands for a value which is not to be written."""
    return digest(value.encode("utf-8", "surrogateescape"))[:12]


def processor_features() -> str:
    """What of a processor decides which code of a library runs: its vendor, and its vector instructions."""
    lines = {match[0] for match in _CPU.finditer(_read("/proc/cpuinfo"))}
    vendor = sorted({match[0] for match in _VENDOR.finditer(_read("/proc/cpuinfo"))})
    flags = {flag for line in lines for flag in _VECTORS.findall(line)}
    return digest(" ".join([*vendor, *sorted(flags), _c_library()]).encode())[:12]


def _processor() -> str:
    lines = {match[0] for match in _CPU.finditer(_read("/proc/cpuinfo"))}
    cores = count_cpus()
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
            yield short_state(text)
    for folder in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        yield short_state(_read(str(folder)))


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
