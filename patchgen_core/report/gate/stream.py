"""A run of the gate as it goes: a line of JSON for its beginning, for each result, and for its end."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from patchgen_core.checks.result import CheckResult, pack, relative_to, retitled, with_paths
from patchgen_core.errors import Problem
from patchgen_core.report.data import SCHEMA, problem_data
from patchgen_core.report.gate.report import GateReport

_NVIDIA = Path("/proc/driver/nvidia")
Send = Callable[[dict[str, Any]], None]
"""Takes one line of a stream, as JSON types."""


class Stream:
    """Tells of a run as it goes.

    Each line is an object with one key. ``begin``: the schema, how many items are going to run, and the environment.
    ``result``: a packed result; one of the same config and item as an earlier line replaces that. ``end``: the exit
    code, and the problems of a run that could not be done.
    """

    def __init__(self, sends: Iterable[Send]) -> None:
        self._sends = tuple(sends)
        self._root = Path()
        self._sent: dict[tuple[str, str, str], CheckResult] = {}

    def begin(self, items: int, device: str, root: Path) -> None:
        """Tell how many items there are; paths of results below ``root`` are relative to it."""
        self._root = root
        if not self._sends:
            return
        packages = installed_packages()
        device = infer_device(packages, _NVIDIA.exists()) if device == "auto" else device
        environment = {"python": platform.python_version(), "device": device, "packages": packages}
        self._send({"begin": {"schema": SCHEMA, "items": items, "environment": environment}})

    def result(self, result: CheckResult) -> None:
        """Tell a result, unless it has been told."""
        key = (result.path, result.config, result.item)
        if self._sent.get(key) != result:
            self._sent[key] = result
            change = relative_to(self._root)
            self._send({"result": pack(retitled(with_paths(result, change)))})

    def end(self, report: GateReport) -> None:
        """Tell what the whole report knows more of a result, and the exit code."""
        for result in report.results:
            self.result(result)
        self._send({"end": {"exit_code": report.exit_code}})

    def fail(self, problems: Iterable[Problem]) -> None:
        """Tell why the run could not be done."""
        self._send({"end": {"exit_code": 2, "errors": problem_data(problems)}})

    def _send(self, line: dict[str, Any]) -> None:
        for send in self._sends:
            send(line)


def infer_device(packages: Mapping[str, str], has_nvidia: bool) -> str:
    """Where "auto" has models run, as far as the packages say that without torch being imported; else "auto"."""
    build = packages.get("torch", "").partition("+")[2]
    if build == "cpu":
        return "cpu"
    if has_nvidia and not build.startswith(("rocm", "xpu")):
        return "cuda"
    is_other = sys.platform != "linux" or build.startswith(("rocm", "xpu")) or "torch-npu" in packages
    return "auto" if is_other else "cpu"


def installed_packages() -> dict[str, str]:
    """The version of each installed package that imports find, by its name."""
    packages: dict[str, str] = {}
    for distribution in distributions():
        metadata = distribution.metadata
        packages.setdefault(metadata["Name"] or "", metadata["Version"] or "")
    packages.pop("", None)
    return dict(sorted(packages.items(), key=lambda package: package[0].lower()))
