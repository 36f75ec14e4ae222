"""Items that run in several processes ahead: the same results, in the same order, as in one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from patchgen_core.checks.check import Check
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.gate import Gate
from patchgen_core.checks.kept.asking import SWITCH
from patchgen_core.checks.registry import BUILT_IN, CheckInfo
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.running.processes import divide_items
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from patchgen_core.config.input_recording import Input
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from tests.conftest import PATCH, ROOT, Workspace
from tests.plugin.conftest import run

CONFIGS = [f"{name}/{name}_gpu_patch_gen_config.py" for name in ("broken", "clean", "crash", "red", "refused")]
_HERE = os.getpid()


class AheadCheck(Check):
    """Comes to what the name of the config says, and tells in which process."""

    name = "ahead"
    runs_ahead = True

    def run(self, path: Path, item: str) -> Iterable[CheckResult]:
        """One result for each config."""
        kind = path.name.partition("_")[0]
        if kind == "refused":
            raise PatchgenError("this cannot be done")
        if kind == "crash":
            raise ValueError("a mistake of the check")
        for result in self.session.results(path):
            status = "failed" if kind == "red" else "clean"
            notes = (f"process {os.getpid()}",) if self.session.settings.isolate else ()
            yield self.result(result, status, notes=notes, reason="", figures={"figure": 0.5})  # type: ignore[arg-type]


class AskingCheck(AheadCheck):
    """Finds out while it runs what its results depend on. Notes that it is to be prepared."""

    name = "asking"
    prepared: list[Path] = []

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing that is known before."""
        return ()

    def prepare(self, project: Project) -> None:
        """Note it."""
        self.prepared.append(project.base)

    def take_asked(self, path: Path) -> frozenset[Input]:
        """Whether something assigns an attribute."""
        return frozenset([("assigned", "added")])


AHEAD, ASKING = (CheckInfo(cls.name, "", f"{__name__}:{cls.__name__}") for cls in (AheadCheck, AskingCheck))


@pytest.fixture
def several(work: Workspace) -> Workspace:
    """A project of several configs, of which one cannot be generated."""
    from tests.conftest import UPSTREAM_TEXT

    work.upstream(UPSTREAM_TEXT)
    for config in CONFIGS:
        work.config(PATCH if "broken" not in config else PATCH.replace("Norm.forward", "Norm.foward"), config)
    return work


def results(
    work: Workspace, jobs: int | None, settings: Settings | None = None, check: CheckInfo = AHEAD
) -> list[CheckResult]:
    project = work.project
    session = Session(project, settings or Settings())
    try:
        gate = Gate(session, [BUILT_IN[0], check], jobs)
        return list(gate.run(gate.items(project.find_configs())))
    finally:
        session.close()


@pytest.mark.slow
def test_any_number_of_processes_gives_the_same_results_in_the_same_order(several: Workspace) -> None:
    here, *others = ([replace(r, seconds=0.0) for r in results(several, jobs)] for jobs in (1, 2, 4))
    assert [result.name for result in here] == ["drift", "ahead"] * len(CONFIGS)
    assert {result.status for result in here if result.check == "ahead"} == {"clean", "failed", "error"}
    for other in others:
        assert other == here


@pytest.mark.slow
def test_units_run_in_processes_of_their_own(several: Workspace) -> None:
    settings = Settings(isolate=True)
    processes = {note for result in results(several, 3, settings) for note in result.notes if "process" in note}
    assert len(processes) > 1
    assert f"process {os.getpid()}" not in processes
    assert {note for r in results(several, None, settings) for note in r.notes if "process" in note} == {
        f"process {os.getpid()}"
    }  # which is not worth a process


@pytest.mark.slow
def test_what_comes_up_in_another_process_counts(several: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    for path in several.root.rglob("*_config.py"):
        if path.name.partition("_")[0] not in ("clean", "red"):
            path.unlink()
    fix(several.check())
    script = several.write("train.py", "def prepare(model):\n    model.added = 1\n")

    def are_kept() -> list[bool]:
        return [result.made > 0 for result in results(several, 2, check=ASKING) if result.check == "asking"]

    assert are_kept() == [False, False]
    assert are_kept() == [True, False]
    script.write_text("")
    assert are_kept() == [False, False]


@pytest.mark.slow
def test_checks_are_prepared_before_their_items_are_known_where_something_has_changed(
    several: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "1")
    for path in several.root.rglob("*_config.py"):
        if "clean" not in path.name:
            path.unlink()
    fix(several.check())

    def list_prepared(jobs: int | None) -> list[Path]:
        AskingCheck.prepared.clear()
        project = several.project
        session = Session(project, Settings())
        try:
            Gate(session, [BUILT_IN[0], ASKING], jobs).items(project.find_configs())
        finally:
            session.close()
        return list(AskingCheck.prepared)

    assert list_prepared(1) == []
    assert list_prepared(2) == []  # their names are known from the first time
    several.write("proj/models/clean/more.py", "VALUE = 1\n")
    assert list_prepared(2) == [several.root]
    several.write("proj/models/clean/more.py", "VALUE = 2\n")
    assert list_prepared(None) == [several.root]
    assert list_prepared(None) == []


def test_items_of_a_folder_stay_together_unless_they_take_long() -> None:
    check = AheadCheck(Session(None, Settings()))
    names = ["import", "parity[eager]", "parity[liger_kernel]", "sharded[sp2]"]
    models = [Path(f"/models/{name}/{name}_{device}.py") for name in ("a", "b") for device in ("gpu", "npu")]
    items = [(check, path, name) for path in models for name in names]
    by_folder = divide_items(items, 2)
    assert [[item[1].parent.name for item in unit] for unit in by_folder] == [["a"] * 8, ["b"] * 8]
    long = [(check, models[0], f"parity[{number}]") for number in range(40)]
    units = divide_items([*long, *items[4:]], 2)
    assert [item for unit in units for item in unit] == [*long, *items[4:]]
    assert [len(unit) for unit in units] == [*[1] * 40, 4, 8]


def test_items_of_a_folder_are_shared_out_where_a_process_would_have_nothing_to_do() -> None:
    check = AheadCheck(Session(None, Settings()))
    names = ["import", "parity[eager]", "parity[liger_kernel]", "sharded[sp2]", "sharded[fsdp2]"]
    config, other = (Path(f"/models/a/a_{device}.py") for device in ("gpu", "npu"))
    alone = [(check, config, name) for name in names]
    assert divide_items(alone, 2) == [[item] for item in alone]
    assert divide_items(alone, 1) == [alone]
    both = [(check, path, name) for path in (config, other) for name in names]
    assert divide_items(both, 2) == [both[:5], both[5:]]


def test_items_run_near_their_places() -> None:
    """As they come when the cheap ones of all models run before the others."""
    check = AheadCheck(Session(None, Settings()))
    models = [Path(f"/models/{number}/{number}_gpu.py") for number in range(40)]
    items = [(check, path, name) for name in ("import", "parity[eager]", "sharded[sp2]") for path in models]
    units = divide_items(items, 2)
    assert sorted(item for unit in units for item in unit) == sorted(items)
    assert max(items.index(unit[-1]) - items.index(unit[0]) for unit in units) < len(items) / 2
    assert [items.index(unit[0]) for unit in units] == sorted(items.index(unit[0]) for unit in units)


def test_the_plugin_hands_out_results_in_their_order(gated: Workspace, pytester: pytest.Pytester) -> None:
    for name in ("clean", "other"):
        gated.config(PATCH, f"{name}/{name}_gpu_patch_gen_config.py")
    (gated.models / "other/other_gpu_patch_gen_config.py").write_text("import nothing_that_is_there\n")
    reports = []
    for jobs in ("1", "2"):
        flags = ("--patchgen-checks=drift,import", f"--patchgen-jobs={jobs}", "--patchgen-report=report.json")
        outcome = run(pytester, gated, *flags, "-v")
        assert outcome.ret == pytest.ExitCode.TESTS_FAILED
        report = json.loads((gated.root / "report.json").read_text())
        assert all(result.pop("seconds") > 0 for result in report["results"])
        lines = [line.partition(" [")[0] for line in outcome.stdout.lines if "::" in line and "ED" in line]
        reports.append((report, lines))
    assert reports[0] == reports[1]


def test_a_wrong_number_of_processes_is_refused(gated: Workspace, pytester: pytest.Pytester) -> None:
    outcome = run(pytester, gated, "--patchgen-jobs=many")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    outcome.stderr.fnmatch_lines(["*--patchgen-jobs takes a number of processes from 1 to 1000, not 'many'*"])


@pytest.mark.slow
@pytest.mark.torch
def test_models_give_the_same_report_in_any_number_of_processes(tmp_path: Path) -> None:
    reports = []
    for jobs in (1, 2, 3):
        file = tmp_path / f"{jobs}.json"
        models = ["examples/zoo/llama", "examples/zoo/qwen3_moe", "examples/zoo/seed_oss"]
        command = [sys.executable, "-m", "patchgen_core", "gate", f"--jobs={jobs}", f"--report={file}", *models]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        report = json.loads(file.read_text())
        assert all(result.pop("seconds") > 0 for result in report["results"])
        reports.append(report)
    assert reports[0] == reports[1] == reports[2]
