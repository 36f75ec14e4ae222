"""Results of checks are kept for as long as everything that went into them is the same, and not longer."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from patchgen_core.build.ruff_setup import find_ruff
from patchgen_core.checks.kept.asking import SWITCH
from patchgen_core.checks.settings import Settings
from tests.checks.kept_project import (
    COUNTED,
    DRIFT,
    HEIR,
    HELPED,
    OTHER,
    READING,
    TOY,
    CountedCheck,
    ReadingCheck,
    make_project,
    rerun,
    run_gate,
)
from tests.conftest import PATCH, UPSTREAM_TEXT, Workspace

WHOLE = [place for place in sys.path if place.endswith("site-packages")]


@pytest.fixture
def project(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The project, of which one run was clean; installed packages are none, which spares looking at their files."""
    monkeypatch.setenv(SWITCH, "1")
    find_ruff()
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not place.endswith("site-packages")])
    make_project(work)
    assert rerun(work) == ["other", "toy"]
    return work


def test_a_second_run_tells_the_same_and_runs_nothing(project: Workspace) -> None:
    CountedCheck.runs.clear()
    fresh = run_gate(project, settings=Settings(caching=False))
    assert sorted(CountedCheck.runs) == ["other", "toy"]
    kept = run_gate(project)
    assert sorted(CountedCheck.runs) == ["other", "toy"]
    assert all(result.made > 0 and result.seconds > 0 for result in kept if result.check == "counted")
    assert [replace(result, made=0.0, seconds=0.0) for result in kept] == [
        replace(result, seconds=0.0) for result in fresh
    ]


def write(path: str, text: str) -> Callable[[Workspace], object]:
    return lambda work: work.write(path, text)


def write_other_upstream(work: Workspace) -> None:
    """Another module of the package that upstream's module lies in, over itself and with its time set back."""
    file = work.site / "acme/models/toy/__init__.py"
    status = file.stat()
    file.write_text(file.read_text().replace("imported", "imborted"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def install(work: Workspace) -> None:
    (work.site / "fast_kernels.py").write_text("VALUE = 1\n")


def shadow(work: Workspace) -> None:
    (work.root / "proj/deep").mkdir()
    (work.root / "proj/deep/__init__.py").write_text("def times(x):\n    return x * 3\n")


def set_variable(work: Workspace) -> None:
    os.environ["ACME_MODE"] = "fast"


def move_upstream(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT + "\n\ndef later(x):\n    return x\n")


BOTH = ["other", "toy"]
EDITS: dict[str, tuple[Callable[[Workspace], object], list[str]]] = {
    "config": (lambda work: work.config(HELPED + "\n# a remark\n", TOY, preamble=""), ["toy"]),
    "other config": (lambda work: work.config(PATCH + "\n# a remark\n", OTHER), ["other"]),
    "helper": (write("proj/helpers.py", "from proj import deep\n\n\ndef double(x):\n    return x + x\n"), ["toy"]),
    "what a helper imports": (write("proj/deep.py", "def times(x):\n    return x * 3\n"), ["toy"]),
    "a package of the name of a module": (shadow, BOTH),
    "package": (write("proj/__init__.py", "VALUE = 1\n"), BOTH),
    "plan": (write("proj/models/toy/parallel_plan.py", "PLAN = {1: 2}\n"), ["toy"]),
    "new file beside": (write("proj/models/toy/checkpoint_tensor_converter.py", ""), ["toy"]),
    "gone file": (lambda work: (work.models / "toy/parallel_plan.py").unlink(), ["toy"]),
    "data beside": (write("proj/models/toy/sizes.json", "{}"), ["toy"]),
    "generated module": (
        lambda work: (work.models / "toy/generated/patched_modeling_toy_gpu.py").write_text("x = 1\n"),
        ["toy"],
    ),
    "diff": (lambda work: (work.models / "toy/generated/patched_modeling_toy_gpu.diff").write_text(""), ["toy"]),
    "toy config": (write("toys/toy_toy/config.json", '{"a": 1}\n'), BOTH),
    "new toy config": (write("toys/more_toy/config.json", "{}\n"), BOTH),
    "set-up": (write("proj/testing.py", "def setup(models):\n    return 1\n"), BOTH),
    "batches": (write("proj/batches.py", "def batches(model):\n    return [1]\n"), BOTH),
    "settings": (lambda work: _append(work.root / "pyproject.toml", 'dtypes = ["float32"]\n'), BOTH),
    "upstream": (move_upstream, BOTH),
    "version of upstream": (lambda work: work.upstream(UPSTREAM_TEXT, version="2.0"), BOTH),
    "what lies beside upstream's module": (write_other_upstream, BOTH),
    "installed": (install, BOTH),
    "environment": (set_variable, BOTH),
    "more programs": (lambda work: os.environ.__setitem__("PATH", f"{os.environ['PATH']}{os.pathsep}/more"), BOTH),
}


def _append(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.mostly_slow(3)
def test_an_edit_has_what_depends_on_it_run(project: Workspace, name: str) -> None:
    edit, expected = EDITS[name]
    edit(project)
    assert rerun(project) == expected


def test_an_edit_that_is_taken_back_has_nothing_run(project: Workspace) -> None:
    helpers = project.root / "proj/helpers.py"
    before = helpers.read_text()
    helpers.write_text(before + "# a remark\n")
    helpers.write_text(before)
    assert rerun(project) == []


UNTOUCHED: dict[str, Callable[[Workspace], object]] = {
    "time": lambda work: [os.utime(path) for path in work.root.rglob("*.py")],
    "unused module": write("proj/unused.py", "VALUE = 2\n"),
    "page": write("README.md", "Read me.\n"),
    "terminal": lambda work: os.environ.__setitem__("COLUMNS", "77"),
    "make": lambda work: os.environ.update(MAKELEVEL="1", MAKEFLAGS="", MFLAGS="-s"),
    "active environment": lambda work: os.environ.update(
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", VIRTUAL_ENV=sys.prefix
    ),
    "bytecode": write("proj/__pycache__/helpers.cpython-311.pyc", ""),
}


@pytest.mark.parametrize("name", UNTOUCHED)
@pytest.mark.mostly_slow(2)
def test_what_nothing_depends_on_has_nothing_run(project: Workspace, name: str) -> None:
    UNTOUCHED[name](project)
    assert rerun(project) == []


@pytest.mark.slow
def test_a_variable_of_the_terminal_counts_where_the_project_names_it(project: Workspace) -> None:
    project.write("proj/deep.py", 'import os\n\n\ndef times(x):\n    return x * len(os.environ["COLUMNS"])\n')
    rerun(project)
    assert rerun(project) == []
    os.environ["COLUMNS"] = "7"
    assert rerun(project) == ["toy"]


@pytest.mark.parametrize(
    "settings",
    [
        Settings(device="cpu"),
        Settings(isolate=True),
        Settings(setups=("proj.deep:times",)),
        Settings(time_limit=5.0),
        Settings(level="quick"),
    ],
)
@pytest.mark.mostly_slow(2)
def test_other_options_have_everything_run(project: Workspace, settings: Settings) -> None:
    assert rerun(project, settings) == BOTH


@pytest.mark.parametrize("settings", [Settings(caching=False), Settings(fix=True), Settings(prune=True)])
def test_a_run_without_the_cache_and_one_that_rewrites_run_everything_each_time(
    project: Workspace, settings: Settings
) -> None:
    assert rerun(project, settings) == BOTH
    assert rerun(project, settings) == BOTH


def test_the_switch_has_everything_run(project: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    assert rerun(project) == BOTH


@pytest.mark.parametrize("status", ["failed", "error"])
@pytest.mark.mostly_slow(1)
def test_nothing_red_is_kept(project: Workspace, monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    project.config(PATCH + "\n# a remark\n", OTHER)
    monkeypatch.setattr(CountedCheck, "status", status)
    assert rerun(project) == ["other"]
    assert rerun(project) == ["other"]


def test_what_is_skipped_is_kept(project: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountedCheck, "status", "skipped")
    project.config(PATCH + "\n# a remark\n", OTHER)
    first = [result for result in run_gate(project) if result.check == "counted"]
    assert rerun(project) == []
    again = [result for result in run_gate(project) if result.check == "counted"]
    assert [result.status for result in again] == [result.status for result in first] == ["skipped", "clean"]


def test_checks_of_a_config_that_has_drifted_run_each_time(project: Workspace) -> None:
    project.config(PATCH.replace("* 2", "* 3"), OTHER)
    assert rerun(project) == ["other"]
    assert rerun(project) == ["other"]


def test_a_check_that_declares_nothing_itself_runs_each_time(project: Workspace) -> None:
    for _ in range(2):
        CountedCheck.runs.clear()
        results = run_gate(project, (DRIFT, HEIR))
        assert sorted(CountedCheck.runs) == BOTH
    assert results[-1].notes == ("a note", "not kept: the check does not declare what it reads")


@pytest.mark.slow
def test_a_process_that_reads_what_no_text_names_keeps_nothing(
    project: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("notes.txt", "some")
    monkeypatch.setattr(sys, "path", [*sys.path, *WHOLE])
    for _ in range(2):
        CountedCheck.runs.clear()
        results = run_gate(project, (DRIFT, READING))
        assert sorted(CountedCheck.runs) == BOTH
    assert results[-1].notes[1:] == (
        "not kept: 'notes.txt' was read, which the texts of the project's modules do not tell",
    )


@pytest.mark.slow
def test_metadata_of_a_project_that_is_installed_in_place_counts(
    project: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, *WHOLE])
    monkeypatch.setattr(ReadingCheck, "file", "proj.egg-info/entry_points.txt")
    for text in ("[proj]\n", "[proj]\na = b\n"):
        project.write(ReadingCheck.file, text)
        for ran in (BOTH, []):
            CountedCheck.runs.clear()
            run_gate(project, (DRIFT, READING))
            assert sorted(CountedCheck.runs) == ran


def test_two_configs_that_write_one_file_are_an_error_of_both(project: Workspace) -> None:
    shutil.copy(project.models / TOY, project.models / "toy/twin_gpu_patch_gen_config.py")
    results = run_gate(project, (DRIFT,))
    assert [result.status for result in results] == ["clean", "error", "error"]


LOOKING = {
    "opens a file": ("def times(x):\n    return open('sizes.txt').read() * x\n", "open()"),
    "reads a path": ("from pathlib import Path\n\nSIZE = Path('size').read_text()\n", ".read_text()"),
    "draws a number": ("import random\n\n\ndef times(x):\n    return x * random.random()\n", "random.random"),
    "asks for the time": ("from time import time as now\n\n\ndef times(x):\n    return x * now()\n", "time.time"),
    "starts a process": (
        "import subprocess as sp\n\nHOST = sp.check_output(['hostname'])\n",
        "subprocess.check_output",
    ),
    "imports by a computed name": (
        "import importlib\n\n\ndef times(x, name='m'):\n    return importlib.import_module('proj.' + name)\n",
        "importlib.import_module() of a computed name",
    ),
    "downloads": (
        "from urllib.request import urlopen\n\nPAGE = urlopen('http://localhost')\n",
        "urllib.request.urlopen",
    ),
}


@pytest.mark.parametrize("name", LOOKING)
@pytest.mark.mostly_slow(1)
def test_what_looks_at_something_unknown_is_not_kept_and_says_why(project: Workspace, name: str) -> None:
    text, look = LOOKING[name]
    project.write("proj/deep.py", text)
    assert rerun(project) == ["toy"]
    results = run_gate(project)
    assert rerun(project) == ["toy"]
    notes = next(result.notes for result in results if result.check == "counted" and "toy_gpu" in result.path)
    assert len(notes) == 2
    assert notes[1].startswith("not kept: proj/deep.py:")
    assert notes[1].endswith(f"uses {look}")


@pytest.mark.slow
def test_what_is_read_on_import_is_told_first_and_the_rest_counted(project: Workspace) -> None:
    project.write("proj/batches.py", "def batches(model):\n    return open('a') or open('b')\n")
    project.write("proj/deep.py", "from time import time\n\nNOW = time()\n\n\ndef times(x):\n    return open(x)\n")
    notes = next(
        result.notes for result in run_gate(project) if result.check == "counted" and "toy_gpu" in result.path
    )
    assert notes[1:] == (
        "not kept: proj/deep.py:3 uses time.time; 2 other functions that may run look at what is not known as well",
    )


def test_a_function_that_nothing_calls_may_look_at_anything(project: Workspace) -> None:
    text = (project.root / "proj/deep.py").read_text()
    project.write("proj/deep.py", text + "\n\ndef save(x):\n    open('result', 'w').write(x)\n")
    assert rerun(project) == ["toy"]
    assert rerun(project) == []


def test_what_changes_while_checks_run_is_not_kept(project: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = project.root / "proj/deep.py"
    text = deep.read_text()
    deep.write_text(text + "# a remark\n")
    ran = CountedCheck.run

    def edit_and_run(self: CountedCheck, path: Path, item: str) -> object:
        deep.write_text(text)
        results = ran(self, path, item)
        deep.write_text(text + "# a remark\n")
        return results

    with monkeypatch.context() as patch:
        patch.setattr(CountedCheck, "run", edit_and_run)
        assert rerun(project) == ["toy"]
    assert rerun(project) == ["toy"]


def test_the_names_of_items_are_kept_as_well(project: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: CountedCheck, path: Path) -> object:
        raise AssertionError("it was asked for its items")

    monkeypatch.setattr(CountedCheck, "items", refuse)
    assert [result.item for result in run_gate(project, (COUNTED,))] == [
        f"proj/models/{OTHER}::counted",
        f"proj/models/{TOY}::counted",
    ]
