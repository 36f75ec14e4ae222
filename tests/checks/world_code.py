"""What the code of a random project does, loaded anew; it imports nothing that is installed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

from patchgen_core.project.project import Project
from patchgen_core.registry import MODELING_REGISTRY

PASSING = ("proj", "acme", "fast_kernels", "lone")
"""Packages that come and go."""


def see_apart(request: tuple[Project, Path, str]) -> dict[str, object]:
    """What the code of a project does, in a process for that."""
    return see(*request)


def see(project: Project, path: Path, item: str) -> dict[str, object]:
    """What the project's code does, loaded anew."""
    forget()
    before = list(sys.path)
    sys.path[:0] = map(str, project.import_roots)
    try:
        module = project.module_name(
            project.output_folder(path) / f"patched_modeling_{path.name.partition('_')[0]}.py"
        )
        setup, _, function = project.setup.partition(":")
        values: dict[str, object] = {
            "forward": attempt(lambda: importlib.import_module(module).Norm().forward(3)),
            "set-up": attempt(lambda: getattr(importlib.import_module(setup), function)(1)),
            "batches": attempt(lambda: importlib.import_module("proj.batches").batches(1)),
            "registered": attempt(lambda: ask_registered(project.module_name(path).rpartition(".")[0])),
        }
    finally:
        sys.path[:] = before
    root = project.parity.toy_root
    files = sorted(root.rglob("*.json")) if root is not None else []
    values["toys"] = [(file.name, file.read_text()) for file in files]
    values["beside"] = [(file.name, file.read_text()) for file in sorted(path.parent.glob("*.json"))]
    values["settings"] = (project.parity.dtypes, project.parity.tolerance)
    if item.endswith("[plan]"):
        values["plan"] = (path.parent / "parallel_plan.py").read_text()
    return values


def ask_registered(package: str) -> list[object]:
    """What the functions give that a package has registered."""
    keys = MODELING_REGISTRY.keys()
    functions = [one for key in keys for one in MODELING_REGISTRY.functions(key)]
    return [function(1) for function in functions if function.__module__ == package]


def attempt(ask: Callable[[], object]) -> object:
    """What is returned, or the error."""
    try:
        return ask()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def forget() -> None:
    """Have the packages that come and go imported anew."""
    for name in [name for name in sys.modules if name.partition(".")[0] in PASSING]:
        del sys.modules[name]
    keys = MODELING_REGISTRY.keys()
    for key in keys:
        MODELING_REGISTRY.unregister(key)
    importlib.invalidate_caches()
