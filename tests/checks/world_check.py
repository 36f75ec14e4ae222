"""A check that runs everything of a project that a check may run, and a gate that tells all that it finds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchgen_core.checks.check import Check
from patchgen_core.checks.gate import Gate, Item
from patchgen_core.checks.kept.asking import watch_code
from patchgen_core.checks.registry import BUILT_IN, CheckInfo
from patchgen_core.checks.result import CheckResult, pack
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from patchgen_core.config.spec import PatchConfig
from patchgen_core.errors import PatchgenError
from patchgen_core.files import digest
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.report.data import error_data
from patchgen_core.workers.worker import Worker
from tests.checks.world_code import forget, see


class WorldCheck(Check):
    """Runs everything of the project that a check may run, and tells what came of it in figures."""

    name = "world"
    follows_configs = False

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing more."""
        return ()

    def items(self, path: Path) -> Iterable[str]:
        """One item, and one for a plan where there is one."""
        yield self.name
        if (path.parent / "parallel_plan.py").is_file():
            yield f"{self.name}[plan]"

    def run(self, path: Path, item: str) -> list[CheckResult]:
        """A result for each config, red in one case of four."""
        project = self.session.project(path)
        results = []
        for result in self.session.results(path):
            if result.outcome.artifact is None:
                results.append(self.nothing_made(result, "nothing is made"))
                continue
            values = self.see(project, result.outcome.path, item)
            figures = {name: int(digest(repr(value).encode())[:6], 16) for name, value in values.items()}
            is_red = figures["forward"] % 4 == 1
            notes = list_places(result.outcome.artifact.plan.config)
            results.append(self.result(result, "failed" if is_red else "clean", figures=figures, notes=notes))
        return results

    def see(self, project: Project, path: Path, item: str) -> dict[str, object]:
        """What the project's code does."""
        return see(project, path, item)


class ApartCheck(WorldCheck):
    """The same, in a process of its own, which tells what it runs of what may look at anything."""

    name = "apart"
    follows_configs = False
    runs_in_workers = True

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing more."""
        return ()

    def see(self, project: Project, path: Path, item: str) -> dict[str, object]:
        """What the project's code does."""
        watch_code(self.session)
        worker = self.session.resource(project, Worker, lambda: Worker("tests.checks.world_code:see_apart", 60))
        values: dict[str, object] = worker.ask((project, path, item))
        return values


def list_places(config: PatchConfig) -> tuple[str, ...]:
    """Where patches are declared of a config that has one tolerance, and what that is."""
    if len(config.tolerances) != 1:
        return ()
    places = [patch.location for patch in config.patches] + [config.tolerances[0].location]
    return (f"{config.tolerances[0].multiple}: {', '.join(map(str, places))}",)


CHECKS = (
    *(info for info in BUILT_IN if info.name in ("drift", "contract")),
    CheckInfo("world", "", f"{__name__}:WorldCheck"),
)

APART = (BUILT_IN[0], CheckInfo("apart", "", f"{__name__}:ApartCheck"))


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
