"""A project with everything that a kept result depends on, and runs of its gate."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from patchgen_core.checks.check import Check
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.gate import Gate
from patchgen_core.checks.registry import BUILT_IN, CheckInfo
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from patchgen_core.errors import Problem
from patchgen_core.workers.worker import Worker
from tests.conftest import PATCH, UPSTREAM, UPSTREAM_TEXT, Workspace

TOY = "toy/toy_gpu_patch_gen_config.py"
OTHER = "other/other_gpu_patch_gen_config.py"
SETTINGS = """
[tool.patchgen]
search_root = "proj/models"
package_prefix = "proj.models"
diffs = true
setup = "proj.testing:setup"

[tool.patchgen.parity]
toy_root = "toys"
batches = ["proj.batches:batches"]
"""
HELPED = f'''
from patchgen import PatchConfig
from proj.helpers import double

config = PatchConfig("{UPSTREAM}", "patched_modeling_toy_gpu.py")
config.add_import("proj.helpers", names=["double"])

@config.override_method("Norm.forward")
def norm_forward(self, x):
    return double(x)
'''


class CountedCheck(Check):
    """Counts how often it runs."""

    name = "counted"
    runs: list[str] = []
    status = "clean"

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing more."""
        return ()

    def run(self, path: Path, item: str) -> Iterable[CheckResult]:
        """One result for each config, with everything that a clean one can tell."""
        self.runs.append(path.name.partition("_")[0])
        more = {"warnings": (Problem("told each time"),), "notes": ("a note",), "figures": {"figure": 0.5}}
        return [self.result(result, self.status, **more) for result in self.session.results(path)]  # type: ignore[arg-type]


class HeirCheck(CountedCheck):
    """Reads more than what it inherits from declares."""

    name = "heir"


class ReadingCheck(CountedCheck):
    """Has a process read a file of the project that no text names."""

    name = "reading"
    file = "notes.txt"

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing, which is wrong."""
        return ()

    def run(self, path: Path, item: str) -> Iterable[CheckResult]:
        """Read it, and count that."""
        project = self.session.project(path)
        worker = self.session.resource(project, Worker, lambda: Worker(f"{__name__}:read_hidden_file", 60))
        worker.ask(project.base / self.file)
        return super().run(path, item)


def read_hidden_file(path: Path) -> str:
    """The text of a file, in a process of its own."""
    return path.read_text()


CHECKS = (CountedCheck, HeirCheck, ReadingCheck)
COUNTED, HEIR, READING = (CheckInfo(cls.name, "", f"{__name__}:{cls.__name__}") for cls in CHECKS)
DRIFT = BUILT_IN[0]


def make_project(work: Workspace) -> None:
    """Write the project, clean."""
    work.upstream(UPSTREAM_TEXT)
    work.write("pyproject.toml", SETTINGS)
    work.write("proj/__init__.py", "")
    work.write("proj/helpers.py", "from proj import deep\n\n\ndef double(x):\n    return deep.times(x)\n")
    work.write("proj/deep.py", "def times(x):\n    return x * 2\n")
    work.write("proj/testing.py", "def setup(models):\n    pass\n")
    work.write("proj/batches.py", "def batches(model):\n    return []\n")
    work.write("proj/unused.py", "VALUE = 1\n")
    work.write("toys/toy_toy/config.json", "{}\n")
    work.write("proj/models/toy/parallel_plan.py", "PLAN = {}\n")
    work.config(HELPED, TOY, preamble="")
    work.config(PATCH, OTHER)
    fix(work.check())


def run_gate(
    work: Workspace, checks: Iterable[CheckInfo] = (DRIFT, COUNTED), settings: Settings | None = None
) -> list[CheckResult]:
    """The results of all items, in their order."""
    project = work.project
    session = Session(project, settings or Settings())
    try:
        gate = Gate(session, tuple(checks))
        return list(gate.run(gate.items(project.find_configs())))
    finally:
        session.close()


def rerun(work: Workspace, settings: Settings | None = None) -> list[str]:
    """The configs whose counted check ran, of all that are gated."""
    CountedCheck.runs.clear()
    run_gate(work, settings=settings)
    return sorted(CountedCheck.runs)
