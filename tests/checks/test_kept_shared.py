"""What machines share: results found by what went into them, wherever that lies, and never believed blindly."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from patchgen_core.build.ruff_setup import find_ruff
from patchgen_core.checks.kept.asking import SWITCH
from patchgen_core.checks.kept.entries import Entry, decode
from patchgen_core.checks.kept.shared_files import SharedFiles
from patchgen_core.project.shared_cache_settings import PLACE_VARIABLE, WRITE_VARIABLE
from patchgen_core.project.table import load_project
from tests.checks.kept_project import OTHER, SETTINGS, make_project, rerun, run_gate
from tests.conftest import PATCH, UPSTREAM_TEXT, Workspace
from tests.spoils import SPOILS, body_of, change, without, write_signed

BOTH = ["other", "toy"]


@pytest.fixture
def project(work: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Workspace:
    """A project that CI ran clean, and that shares what it found with other machines."""
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv(PLACE_VARIABLE, str(tmp_path / "shared"))
    find_ruff()
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not place.endswith("site-packages")])
    make_project(work)
    assert rerun(work) == BOTH
    return work


def copy(work: Workspace, name: str) -> Workspace:
    """Another checkout of the project, of which nothing is kept."""
    other = object.__new__(Workspace)
    other.root, other.site = work.root.with_name(name), work.site
    other.models = other.root / "proj/models"
    shutil.copytree(work.root, other.root, ignore=shutil.ignore_patterns(".patchgen_cache"))
    return other


def shared_files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "shared").glob("??/*"))


@pytest.fixture
def desk(project: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Another checkout, by a user who is not CI."""
    monkeypatch.delenv("CI")
    return copy(project, "desk")


@pytest.mark.slow
def test_another_checkout_runs_nothing(desk: Workspace, project: Workspace) -> None:
    assert rerun(desk) == []
    results = [result for result in run_gate(desk) if result.check == "counted"]
    assert [Path(result.path).is_relative_to(desk.root) for result in results] == [True, True]
    assert all(result.made > 0 for result in results)


def test_what_was_shared_is_kept_here(desk: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rerun(desk) == []
    monkeypatch.setenv(PLACE_VARIABLE, "")
    assert rerun(desk) == []


def test_another_user_with_another_path_home_and_folder_runs_nothing(
    desk: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATH", "HOME", "USER", "LANG", "GITHUB_RUN_ID", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, f"{os.environ.get(name, '')}:/elsewhere")
    monkeypatch.chdir(desk.root)
    assert rerun(desk) == BOTH  # the working directory was outside, and is inside
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/more")
    monkeypatch.setenv("CI", "true")
    third = copy(desk, "third")
    monkeypatch.chdir(third.root)
    assert rerun(third) == BOTH
    fourth = copy(desk, "fourth")
    monkeypatch.chdir(fourth.root)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/yet/more")
    assert rerun(fourth) == []


@pytest.mark.slow
def test_upstream_elsewhere_with_the_same_contents_is_the_same(
    desk: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    moved = shutil.copytree(desk.site, tmp_path / "installed elsewhere")
    for path in moved.rglob("*"):
        os.utime(path, (1_000_000, 1_000_000))
    places = [str(moved) if place == str(desk.site) else place for place in sys.path]
    monkeypatch.setattr(sys, "path", places)
    assert rerun(desk) == []


def other_upstream(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT + "\n\ndef later(x):\n    return x\n")


EDITS = {
    "config": (lambda work: work.config(PATCH + "\n# a remark\n", OTHER), ["other"]),
    "helper": (lambda work: work.write("proj/deep.py", "def times(x):\n    return x + x\n"), ["toy"]),
    "upstream": (other_upstream, BOTH),
    "beside upstream": (lambda work: (work.site / "acme/models/more.py").write_text("X = 1\n"), BOTH),
    "installed": (lambda work: (work.site / "fast_kernels.py").write_text("VALUE = 1\n"), BOTH),
    "environment": (lambda work: os.environ.__setitem__("ACME_MODE", "fast"), BOTH),
    "settings": (lambda work: work.write("pyproject.toml", SETTINGS + 'dtypes = ["float32"]\n'), BOTH),
}


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.slow
def test_what_differs_has_it_run(desk: Workspace, name: str) -> None:
    edit, expected = EDITS[name]
    edit(desk)
    assert rerun(desk) == expected


@pytest.mark.slow
def test_variables_and_packages_that_may_differ_are_named(
    project: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = '[tool.patchgen.shared_cache]\nplace = "../shared"\n'
    table += 'ignore_variables = ["ACME_*"]\nignore_packages = ["fast_*"]\n'
    project.write("pyproject.toml", SETTINGS + table)
    monkeypatch.delenv(PLACE_VARIABLE)
    assert rerun(project) == BOTH
    desk = copy(project, "desk")
    monkeypatch.setenv("ACME_MODE", "fast")
    (project.site / "fast_kernels.py").write_text("VALUE = 1\n")
    assert rerun(desk) == []


@pytest.mark.parametrize("name", ["HOME", "CI", "http_proxy"])
@pytest.mark.slow
def test_a_variable_that_the_project_names_counts(
    project: Workspace, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    text = f'import os\n\n\ndef times(x):\n    return x * len(os.environ.get("{name}", ""))\n'
    project.write("proj/deep.py", text)
    monkeypatch.setenv(name, "here")
    rerun(project)
    assert rerun(copy(project, "alike")) == []
    monkeypatch.setenv(name, "elsewhere")
    assert rerun(copy(project, "desk")) == ["toy"]


def test_only_those_who_are_to_write_do(desk: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = shared_files(tmp_path)
    desk.config(PATCH + "\n# a remark\n", OTHER)
    assert rerun(desk) == ["other"]
    assert shared_files(tmp_path) == before
    desk.config(PATCH + "\n# another remark\n", OTHER)
    monkeypatch.setenv(WRITE_VARIABLE, "1")
    assert rerun(desk) == ["other"]
    assert len(shared_files(tmp_path)) > len(before)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv(WRITE_VARIABLE, "0")
    after = shared_files(tmp_path)
    desk.config(PATCH + "\n# one more\n", OTHER)
    assert (rerun(desk), shared_files(tmp_path)) == (["other"], after)


def _poison(name: str, value: object) -> object:
    def write(file: Path) -> None:
        data = json.loads(body_of(file))
        write_signed(file, json.dumps({**data, "entry": {**data["entry"], name: value}}).encode())

    return write


POISONS = {
    "another key": change(key="0" * 48),
    "another format": change(shared_format=2),
    "no entry": without("entry"),
    "another machine": _poison("machine", "0" * 24),
    "another config": _poison("path", "proj/models/none.py"),
    "another item": _poison("item", "plan"),
    "no inputs": _poison("inputs", []),
    "inputs of no kind": _poison("inputs", [["unheard", "of", None]]),
    "no results": _poison("results", []),
    "red results": _poison("results", [{"check": "counted", "status": "failed"}]),
    "results of another check": _poison("results", [{"check": "parity", "status": "clean"}]),
}


@pytest.mark.slow
def test_entries_that_are_signed_and_wrong_are_not_believed(desk: Workspace, tmp_path: Path) -> None:
    files = [file for file in shared_files(tmp_path) if b'"names":{}' in file.read_bytes()]
    bodies = [file.read_bytes() for file in files]
    for name, poison in POISONS.items():
        for file, body in zip(files, bodies):
            file.write_bytes(body)
            poison(file)
        assert (name, rerun(desk)) == (name, BOTH)
        shutil.rmtree(desk.root / ".patchgen_cache")
    for file, body in zip(files, bodies):
        file.write_bytes(body)
    assert rerun(desk) == []


@pytest.mark.parametrize("name", SPOILS)
def test_spoilt_files_are_not_there(tmp_path: Path, name: str) -> None:
    body = b'{"key": "%s"}' % (b"a" * 100)
    files = SharedFiles(str(tmp_path), tmp_path, 10)
    files.write({"ab": body})
    assert files.read(["ab", "cd"]) == {"ab": body}
    SPOILS[name](tmp_path / "ab/ab")
    found = files.read(["ab"]).get("ab")
    assert found is None or decode(found, Entry) is None


@pytest.mark.slow
def test_files_that_changed_places_are_not_believed(desk: Workspace, tmp_path: Path) -> None:
    files = shared_files(tmp_path)
    bodies = [file.read_bytes() for file in files]
    for file, body in zip(files, [*bodies[1:], bodies[0]]):
        file.write_bytes(body)
    assert rerun(desk) == BOTH


@pytest.mark.torch  # fsspec comes with it
def test_a_url_of_fsspec(project: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, *INSTALLED])
    importlib.import_module("fsspec")
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in INSTALLED])
    monkeypatch.setenv(PLACE_VARIABLE, "memory://patchgen/results")
    project.config(PATCH + "\n# a remark\n", OTHER)
    assert rerun(project) == ["other"]
    desk = copy(project, "desk")
    assert rerun(desk) == ["toy"]
    assert rerun(copy(desk, "third")) == []


INSTALLED = [place for place in sys.path if place.endswith("site-packages")]


@pytest.mark.parametrize("place", ["unheard://of", "/dev/null/folder", "s3://no-such-bucket/patchgen"])
@pytest.mark.mostly_slow(1)
def test_a_place_that_cannot_be_used_is_told_once(
    desk: Workspace, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv(PLACE_VARIABLE, place)
    monkeypatch.setenv(WRITE_VARIABLE, "1")
    with pytest.warns(UserWarning, match=f"the shared cache '{place}' is not used: ") as told:
        assert rerun(desk) == BOTH
    assert len([each for each in told if "shared cache" in str(each.message)]) == 1


def test_a_place_that_does_not_answer_is_asked_no_more(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never")
    files = SharedFiles(str(tmp_path), tmp_path, 0.2)
    started = threading.Event()

    class Silent:
        def read(self, names: object) -> dict[str, bytes]:
            started.set()
            time.sleep(30)
            return {}

    files._files = Silent()  # type: ignore[assignment]
    assert files.read(["ab"]) == {}
    assert (started.is_set(), files.failure) == (True, "it did not answer in 0.2 s")
    started.clear()
    assert files.read(["cd"]) == {}
    assert not started.is_set()


def test_the_settings(work: Workspace) -> None:
    (work.root / "toys").mkdir()
    work.write("pyproject.toml", SETTINGS.replace("diffs = true", 'diffs = true\nshared_cache = "s3://acme/patchgen"'))
    settings = load_project(work.root).shared_cache
    assert (settings.place, settings.write, settings.time_limit) == ("s3://acme/patchgen", "CI", 10.0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("plase = 's3://x'", "[tool.patchgen.shared_cache] has no key 'plase'"),
        ("place = 3", "place must be a folder or a URL, such as 's3://bucket/patchgen', not 3"),
        ("write = true", "write must be the name of an environment variable, such as 'CI', not True"),
        ("time_limit = 0", "time_limit must be a number of seconds, not 0"),
        ("ignore_variables = 'A'", """ignore_variables must be a list of patterns, such as ["ACME_*"], not 'A'"""),
    ],
)
def test_wrong_settings_are_errors(work: Workspace, line: str, message: str) -> None:
    (work.root / "toys").mkdir()
    work.write("pyproject.toml", f"{SETTINGS}\n[tool.patchgen.shared_cache]\n{line}\n")
    done = work.patchgen("--check")
    assert done.returncode == 2
    assert message in done.stderr


def test_a_folder_needs_no_fsspec(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from patchgen_core.checks.kept.sharing import SharedFiles
files = SharedFiles("shared", Path.cwd(), 10)
files.write({"ab": b"body"})
assert files.read(["ab"]) == {"ab": b"body"}
assert "fsspec" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
