"""Code of a project that looks at what no text tells, where processes tell whether it runs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from patchgen_core.build.ruff_setup import find_ruff
from patchgen_core.checks.kept.asking import SWITCH, kept_of_project, watch_code
from patchgen_core.checks.registry import BUILT_IN, CheckInfo
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from patchgen_core.project.shared_cache_settings import PLACE_VARIABLE, WRITE_VARIABLE
from patchgen_core.workers.watched_code import VARIABLE
from patchgen_core.workers.worker import Worker
from tests.checks.kept_project import DRIFT, CountedCheck, make_project, run_gate
from tests.conftest import Workspace

HANDLER = "tests.checks.running_code"


class RunningCheck(CountedCheck):
    """Runs ``proj.deep.times`` in a process."""

    name = "running"
    runs: list[str] = []
    runs_in_workers = True

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing more."""
        return ()

    def run(self, path: Path, item: str) -> Iterable[CheckResult]:
        """Run it, and count that."""
        watch_code(self.session)
        project = self.session.project(path)
        worker = self.session.resource(
            project, Worker, lambda: Worker(f"{HANDLER}:run_times", 60, project.import_roots)
        )
        self.runs.append(path.name.partition("_")[0])
        value = worker.ask("proj.deep")
        for result in self.session.results(path):
            yield self.result(result, "clean", notes=(f"twice 3: {value}",))


class InheritingCheck(RunningCheck):
    """Says nothing of where it runs code."""

    name = "inheriting"

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing more."""
        return ()


CHECKS = (RunningCheck, InheritingCheck)
IMPORT = next(check for check in BUILT_IN if check.name == "import")
RUNNING, INHERITING = (CheckInfo(cls.name, "", f"{__name__}:{cls.__name__}") for cls in CHECKS)


@pytest.fixture
def project(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A project of two models, whose gate keeps results; its tests import nothing that is installed."""
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.delenv(VARIABLE, raising=False)
    find_ruff()
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not place.endswith("site-packages")])
    make_project(work)
    return work


def rerun(work: Workspace, check: CheckInfo = RUNNING) -> list[str]:
    """The configs whose check ran, of ``toy`` alone: the other one imports none of that."""
    RunningCheck.runs.clear()
    run_gate(work, (DRIFT, check))
    return [name for name in RunningCheck.runs if name == "toy"]


def find_reason(work: Workspace, check: CheckInfo = RUNNING) -> str:
    """Why the result of the toy model is not kept; empty for no reason."""
    notes = next(r.notes for r in run_gate(work, (DRIFT, check)) if r.check == check.name and "toy_gpu" in r.path)
    return next((note.removeprefix("not kept: ") for note in notes if note.startswith("not kept: ")), "")


TIMES = "\n\ndef times(x):\n    return x * 2"
KEPT = {
    "a function that does not run": f"def load():\n    return open('sizes')\n{TIMES} or load()\n",
    "a method that does not run": (
        f"class Store:\n    def load(self):\n        return open('sizes')\n{TIMES} or Store().load()\n"
    ),
    "whether a package is installed": (
        f"import importlib.util\n\nHAS = importlib.util.find_spec('nowhere_at_all')\n{TIMES}\n"
    ),
    "the same in a function": (
        "from importlib.util import find_spec\n\n\ndef has(name):\n    return find_spec(name) is not None\n\n\n"
        "def times(x):\n    return x * 2 + has('nowhere_at_all')\n"
    ),
    "a program": f"import shutil\n\nHADOOP = shutil.which('some-program')\n{TIMES}, HADOOP\n",
    "a stand-in for a module": (
        f"import sys\nfrom types import ModuleType\n\nsys.modules['a_package'] = ModuleType('a_package')\n{TIMES}\n"
    ),
    "the home folder": f"import os\n\nHOME = os.path.expanduser('~/.cache')\n{TIMES}\n",
}
ASKING = """import importlib.util


def times(x):
    try:
        return x + bool(importlib.util.find_spec("NAME"))
    except ModuleNotFoundError:
        return x
"""
RUNS = "def times(x):\n    return x * len(open(__file__).read())\n"
NOT_KEPT = {
    "a function that runs": (RUNS, "proj/deep.py:2 uses open(), and ran"),
    "a function that runs at the import": (
        f"{RUNS}\n\nNUMBER = times(1)\n",
        "proj/deep.py:2 uses open(), and ran",
    ),
    "what runs at the import": (
        "TEXT = open(__file__).read()\n\n\ndef times(x):\n    return x * 2\n",
        "proj/deep.py:1 uses open()",
    ),
    "what is imported already": (
        f"import sys\n\nHAS = sys.modules.get('some_package')\n{TIMES}\n",
        "proj/deep.py:3 uses sys.modules",
    ),
    "one that asks and opens": (
        "import shutil\n\n\ndef times(x):\n    return (shutil.which('some-program'), open(__file__).read())\n",
        "proj/deep.py:5 uses open(), and ran",
    ),
    "a program on a path of its own": (
        f"import shutil\n\nHADOOP = shutil.which('some-program', path='/nowhere')\n{TIMES}\n",
        "it was looked for a program on a path of {root}/proj/deep.py",
    ),
    "a function that only getattr names": (
        "import sys\n\n\ndef load():\n    return open(__file__).read()\n\n\ndef times(x):\n"
        "    return getattr(__import__('proj.deep').deep, 'lo' + 'ad')()\n",
        "proj/deep.py:5 uses open(), and ran",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_result_is_kept_where_nothing_that_looks_elsewhere_runs(project: Workspace, name: str) -> None:
    project.write("proj/deep.py", KEPT[name])
    assert rerun(project) == ["toy"]
    assert rerun(project) == []


@pytest.mark.parametrize("name", NOT_KEPT)
def test_a_result_is_not_kept_where_it_runs_and_a_note_says_so(project: Workspace, name: str) -> None:
    text, reason = NOT_KEPT[name]
    project.write("proj/deep.py", text)
    assert rerun(project) == ["toy"]
    assert rerun(project) == ["toy"]
    assert find_reason(project) == reason.replace("{root}", str(project.root))


def test_a_function_counts_that_stands_beside_generated_modules(project: Workspace) -> None:
    project.write("proj/generated/__init__.py", "")
    project.write("proj/generated/loading.py", RUNS)
    project.write("proj/deep.py", "from proj.generated.loading import times as times\n")
    assert rerun(project) == ["toy"]
    assert rerun(project) == ["toy"]
    assert find_reason(project) == "proj/generated/loading.py:2 uses open(), and ran"


def test_what_is_not_known_of_counts_where_no_process_tells(project: Workspace) -> None:
    project.write("proj/deep.py", KEPT["a function that does not run"])
    for check in (INHERITING, INHERITING):
        assert rerun(project, check) == ["toy"]
    assert find_reason(project, INHERITING) == "proj/deep.py:2 uses open()"


def test_a_program_counts_that_the_project_asked_for(
    project: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    project.write("proj/deep.py", KEPT["a program"])
    assert rerun(project) == ["toy"]
    assert rerun(project) == []
    program = tmp_path / "some-program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert rerun(project) == ["toy"]
    assert rerun(project) == []


def test_a_package_that_comes_into_the_project_counts_where_it_was_asked_for(project: Workspace) -> None:
    project.write("proj/deep.py", KEPT["whether a package is installed"])
    assert rerun(project) == ["toy"]
    project.write("nowhere_at_all/__init__.py", "")
    assert rerun(project) == ["toy"]


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("proj.more", "proj/more.py"),
        ("proj.more", "proj/more/file.txt"),
        ("more", "more/__init__.py"),
        ("proj.sub.more", "proj/sub/more.py"),
        ("proj.sub.more", "proj/sub/more/file.txt"),
        ("proj.sub", "proj/sub/__init__.py"),
    ],
)
@pytest.mark.mostly_slow(3)
def test_a_module_of_the_project_counts_that_was_asked_for(project: Workspace, name: str, made: str) -> None:
    project.write("proj/sub/file.txt", "")
    project.write("proj/deep.py", ASKING.replace("NAME", name))
    assert rerun(project) == ["toy"]
    assert rerun(project) == []
    project.write(made, "")
    assert rerun(project) == ["toy"]


@pytest.mark.parametrize("is_shared", [False, True])
def test_the_home_folder_counts_where_it_is_asked_for(
    project: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_shared: bool
) -> None:
    monkeypatch.setenv(PLACE_VARIABLE, str(tmp_path / "shared") if is_shared else "")
    monkeypatch.setenv(WRITE_VARIABLE, "1")
    monkeypatch.setenv("HOME", "/home/one")
    for text, runs in ((KEPT["the home folder"], ["toy"]), (f"{TIMES}\n", [] if is_shared else ["toy"])):
        project.write("proj/deep.py", text)
        assert rerun(project) == ["toy"]
        shutil.rmtree(project.root / ".patchgen_cache")
        with monkeypatch.context() as other_machine:
            other_machine.setenv("HOME", "/home/two")
            assert rerun(project) == runs


def test_nothing_is_kept_where_processes_are_told_to_note_something_else(
    project: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    project.write("proj/deep.py", KEPT["a function that does not run"])
    for name, text in (("other.json", '{"base": "/", "functions": {"/a.py": [1]}, "own": []}'), ("broken.json", "{")):
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(VARIABLE, str(tmp_path / name))
        for _ in range(2):
            assert rerun(project) == ["toy"]
        assert find_reason(project) == "proj/deep.py:2 uses open()"


def test_nothing_is_left_behind(project: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    project.write("proj/deep.py", KEPT["a function that does not run"])
    assert rerun(project) == ["toy"]
    assert VARIABLE not in os.environ
    assert list(tmp_path.glob("patchgen-watched-*")) == []


@pytest.mark.parametrize("runs", [False, True])
def test_what_runs_while_a_generated_module_is_imported_counts(project: Workspace, runs: bool) -> None:
    project.write("proj/deep.py", f"{RUNS}\n\nNUMBER = times(1)\n" if runs else RUNS)
    for is_first in (True, False):
        result = next(r for r in run_gate(project, (DRIFT, IMPORT)) if r.check == "import" and "toy_gpu" in r.path)
        assert result.status == "clean"
        assert bool(result.made) is not (is_first or runs)
        assert result.notes == (("not kept: proj/deep.py:2 uses open(), and ran",) if runs else ())


@pytest.mark.parametrize("looks", [False, True])
def test_runs_of_upstream_are_kept_where_what_models_need_looks_at_nothing(project: Workspace, looks: bool) -> None:
    project.write("proj/testing.py", f"def setup(models):\n    {'return open(__file__)' if looks else 'pass'}\n")
    session = Session(project.project, Settings())
    try:
        kept = kept_of_project(session, project.project)
        assert kept is not None
        assert (kept.find_run_place() is None) is looks
    finally:
        session.close()
