"""Environments that are really installed, from an index on this machine, in the real bubblewrap."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import distribution, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from patchgen_service import environments
from patchgen_service.environments import (
    InstallFailed,
    PythonEnvironment,
    Recipe,
    find_interpreter,
    make_environment,
    remove_unused,
)
from patchgen_service.isolation.box import MEBIBYTE, Limits
from tests.service.environments.wheel_index import WheelIndex

LIMITS = Limits(seconds=120, memory=1024 * MEBIBYTE, processes=64, disk=256 * MEBIBYTE)
OWN = "pytest-patchgen"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WheelIndex]:
    """An index that has what this package needs, as empty modules, and two versions of a package ``tiny``."""
    index = WheelIndex(tmp_path_factory.mktemp("index"))
    for requirement in map(Requirement, distribution(OWN).requires or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            index.add(requirement.name, version(requirement.name))
    for number in ("1.0", "2.0"):
        index.add("tiny", number, f"VERSION = {number!r}\n")
        index.add("safetensors", number)
    yield index
    index.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("environments")


@pytest.fixture(scope="module")
def recipe(index: WheelIndex) -> Recipe:
    return Recipe(constraints="tiny<2\nSafeTensors==1.0\nunrelated==3\n", requirements=("tiny",), index=index.url)


@pytest.fixture(scope="module")
def environment(folder: Path, recipe: Recipe) -> PythonEnvironment:
    return make_environment(folder, recipe, "bubblewrap", LIMITS)


def ask(environment: PythonEnvironment, code: str) -> str:
    """What Python code prints there."""
    done = subprocess.run([environment.python, "-c", code], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_an_environment_has_what_is_asked_for_within_its_constraints(environment: PythonEnvironment) -> None:
    """And this package, as the service has it, with its command."""
    assert ask(environment, "import tiny; print(tiny.VERSION)") == "1.0"
    code = (
        f"from importlib.metadata import version; import patchgen_core as own; print(version({OWN!r}), own.__file__)"
    )
    number, path = ask(environment, code).split()
    assert number == version(OWN)
    assert Path(path).is_relative_to(environment.python.parents[1])


@pytest.mark.slow
def test_an_environment_has_what_its_constraints_name_of_what_models_run_with(environment: PythonEnvironment) -> None:
    """A team's constraints file is enough: of what else it names, nothing is installed."""
    code = "from importlib.metadata import distributions; print(*(one.name for one in distributions()))"
    names = set(ask(environment, code).split())
    assert "safetensors" in names
    assert not names & {"torch", "transformers", "unrelated"}
    code = "from importlib.metadata import version; print(version('safetensors'))"
    assert ask(environment, code) == "1.0"


@pytest.mark.slow
def test_an_environment_is_made_once(
    environment: PythonEnvironment, folder: Path, recipe: Recipe, index: WheelIndex
) -> None:
    """However many runs ask for it at once; another text of constraints is another one."""
    asked = len(index.requests)
    same: list[PythonEnvironment] = []
    threads = [
        threading.Thread(target=lambda: same.append(make_environment(folder, recipe, "bubblewrap", LIMITS)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert same == [environment] * 4
    assert len(index.requests) == asked
    assert replace(recipe, constraints="tiny<3\n").digest != recipe.digest


@pytest.mark.slow
def test_what_stops_installing_says_why_and_leaves_the_others(
    environment: PythonEnvironment, folder: Path, recipe: Recipe
) -> None:
    other = replace(recipe, constraints="tiny==7.1\n")
    with pytest.raises(InstallFailed, match=r"The environment could not be installed: ERROR: .*tiny") as caught:
        make_environment(folder, other, "bubblewrap", LIMITS)
    assert "tiny" in caught.value.log
    assert [path.name for path in folder.iterdir() if path.is_dir()] == [environment.digest]
    assert ask(environment, "import tiny; print(tiny.VERSION)") == "1.0"


@pytest.mark.slow
def test_an_environment_goes_when_it_was_not_used_for_long(environment: PythonEnvironment, folder: Path) -> None:
    now = time.time()
    assert remove_unused(folder, now - 3600) == []
    os.utime(environment.python.parents[1] / "complete", (now - 7200,) * 2)
    assert remove_unused(folder, now - 3600) == [environment.digest]
    assert not environment.python.exists()


def test_a_python_is_named_by_its_path_its_name_or_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path(os.path.realpath(sys.executable))
    (tmp_path / "python3.99").symlink_to(real)
    monkeypatch.setattr(environments, "SEARCH_PATH", str(tmp_path))
    for name in (str(real), str(tmp_path / "python3.99"), "python3.99", "3.99"):
        assert find_interpreter(name) == real


def test_what_is_no_python_shows_nothing_of_its_folder_to_a_run(
    folder: Path, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is not looked for in the folder that the service was started in, nor is that shown."""
    program = tmp_path / "secrets" / "python3.99"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(program.parent)
    for name, problem in (
        (str(program), "is not Python"),
        ("python3.99", "there is no"),
        ("./python3.99", "there is no"),
    ):
        with pytest.raises(InstallFailed, match=problem):
            make_environment(folder, replace(recipe, python=name), "bubblewrap", LIMITS)
