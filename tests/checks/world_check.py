"""A check that runs everything of a project that a check may run, and a gate that tells all that it finds."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchgen_core.checks.check import Check
from patchgen_core.checks.gate import Gate, Item
from patchgen_core.checks.registry import BUILT_IN, CheckInfo
from patchgen_core.checks.result import CheckResult, pack
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from patchgen_core.config.spec import PatchConfig
from patchgen_core.errors import PatchgenError
from patchgen_core.files import digest
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.registry import MODELING_REGISTRY
from patchgen_core.report.data import error_data

PASSING = ("proj", "acme", "fast_kernels", "lone")
"""Packages that come and go."""


class WorldCheck(Check):
    """Runs everything of the project that a check may run, and tells what came of it in figures."""

    name = "world"
    follows_configs = False

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing more."""
        return ()

    def items(self, path: Path) -> Iterable[str]:
        """One item, and one for a plan where there is one."""
        yield "world"
        if (path.parent / "parallel_plan.py").is_file():
            yield "world[plan]"

    def run(self, path: Path, item: str) -> list[CheckResult]:
        """A result for each config, red in one case of four."""
        project = self.session.project(path)
        results = []
        for result in self.session.results(path):
            if result.outcome.artifact is None:
                results.append(self.nothing_made(result, "nothing is made"))
                continue
            values = see(project, result.outcome.path, item)
            figures = {name: int(digest(repr(value).encode())[:6], 16) for name, value in values.items()}
            is_red = figures["forward"] % 4 == 1
            notes = list_places(result.outcome.artifact.plan.config)
            results.append(self.result(result, "failed" if is_red else "clean", figures=figures, notes=notes))
        return results


def list_places(config: PatchConfig) -> tuple[str, ...]:
    """Where patches are declared of a config that has one tolerance, and what that is."""
    if len(config.tolerances) != 1:
        return ()
    places = [patch.location for patch in config.patches] + [config.tolerances[0].location]
    return (f"{config.tolerances[0].multiple}: {', '.join(map(str, places))}",)


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
    if item == "world[plan]":
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


CHECKS = (
    *(info for info in BUILT_IN if info.name in ("drift", "contract")),
    CheckInfo("world", "", f"{__name__}:WorldCheck"),
)


DEFAULTS = Settings()


def gate(
    checks: Iterable[CheckInfo] = CHECKS,
    settings: Settings = DEFAULTS,
    is_chosen: Callable[[Item], bool] = lambda item: True,
) -> tuple[str, list[CheckResult]]:
    """All that a run of the gate here tells, and its results."""
    forget()
    try:
        project = load_project()
        session = Session(project, settings)
    except PatchgenError as error:
        return json.dumps(error_data(error.problems)), []
    try:
        runs = Gate(session, tuple(checks))
        items = runs.items(project.find_configs(), [project.base])
        results = list(runs.run([item for item in items if is_chosen(item)]))
    except PatchgenError as error:
        return json.dumps(error_data(error.problems)), []
    finally:
        session.close()
    return json.dumps([tell(result) for result in results], indent=1), results


def tell(result: CheckResult) -> dict[str, Any]:
    """A result without what may differ: its time, and why it is not kept."""
    notes = tuple(note for note in result.notes if not note.startswith(("not kept: ", "not cached: ")))
    return pack(replace(result, made=0.0, seconds=0.0, notes=notes))
