"""What a command may see, change and use up."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

Kind = Literal["bubblewrap", "podman", "none"]
"""How a command is isolated. ``none`` keeps to the environment and the limits, and is for trusted code alone."""

MEBIBYTE = 1 << 20
HOME = Path("/tmp/home")
"""The home folder of what runs isolated; gone at its end, as is all of ``/tmp``."""
SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where programs are looked for."""


@dataclass(frozen=True)
class Limits:
    """What a command may use up; sizes are in bytes.

    Attributes:
        memory: of all its processes together, and of each of them.
        disk: of all files that it writes; of a folder that it may write to, beyond what was there.
        output: what it may print.
    """

    seconds: float = 1800
    memory: int = 8192 * MEBIBYTE
    processes: int = 512
    disk: int = 2048 * MEBIBYTE
    output: int = 64 * MEBIBYTE


@dataclass(frozen=True)
class Box:
    """What a command may see and change; all else of the machine is not there.

    Attributes:
        folder: where it runs.
        readable: folders and files, each with the path that it has in the box.
        writable: folders that stay; ``/tmp`` can be written to as well, and does not.
        hidden: what stays out of sight where it lies below something readable.
        environment: all the variables that it gets beside those of :func:`base_environment`.
    """

    folder: Path
    readable: Mapping[Path, Path] = field(default_factory=dict)
    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    has_network: bool = False
    limits: Limits = Limits()


def base_environment(box: Box, home: Path = HOME, temporary: Path = HOME.parent) -> dict[str, str]:
    """The variables of a command: none of this process's, which may hold secrets."""
    return {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": SEARCH_PATH,
        "TMPDIR": str(temporary),
        "USER": "patchgen",
        **box.environment,
    }


def own_packages() -> list[Path]:
    """The folders of the packages that a gate runs with; not by importing them, for pytest is much to keep."""
    specs = map(find_spec, ("patchgen", "patchgen_core", "pytest_patchgen"))
    return [Path(spec.origin).parent for spec in specs if spec is not None and spec.origin]


def python_folders() -> dict[Path, Path]:
    """What an isolated process needs to see to run this interpreter with the packages that this process has."""
    installed = [Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    elsewhere = [path.parents[2] for path in installed if (path.parents[2] / "pyvenv.cfg").exists()]
    prefixes = [Path(sys.prefix), Path(sys.base_prefix), Path(os.path.realpath(sys.executable)).parents[1], *elsewhere]
    return {path: path for path in dict.fromkeys([*prefixes, *installed, *own_packages()]) if path.exists()}
