"""`ModelingCodeGenerator` in a script, a worker, an interpreter and a notebook: none is executed a second time."""

from __future__ import annotations

import linecache
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from patchgen import ModelingCodeGenerator
from tests.api.toy_project import PATCH
from tests.conftest import PREAMBLE, Workspace

COUNT = 'with open("runs.txt", "a") as log:\n    log.write("run ")\n'
BUILD = """
from patchgen import ModelingCodeGenerator

print(ModelingCodeGenerator(config).generate("build/patched.py").count("x * 2"))
"""
WORKERS = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor


def build(number):
    from patchgen import ModelingCodeGenerator

    return ModelingCodeGenerator(config).generate(f"build/{number}.py").count("x * 2")


if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        print(*pool.map(build, [1, 2]), build(3))
"""
CELL = """
@config.add_helper
class Other:
    def forward(self, x):
        return x + 3
"""


def run(toy: Workspace, *command: str, typed: str | None = None) -> str:
    """What Python prints in the project's folder."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(toy.site), str(toy.root)))}
    done = subprocess.run(
        [sys.executable, *command], cwd=toy.root, env=env, input=typed, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def runs(toy: Workspace) -> int:
    return (toy.root / "runs.txt").read_text().count("run")


@pytest.mark.parametrize(
    "command",
    [
        ["proj/models/toy/build.py"],
        ["-m", "proj.models.toy.build"],
        ["-c", "import runpy; runpy.run_path('proj/models/toy/build.py', run_name='__main__')"],
        ["-c", "import proj.models.toy.build"],
        ["-c", "exec(open('proj/models/toy/build.py').read())"],
    ],
    ids=["file", "module", "runpy", "import", "exec"],
)
@pytest.mark.mostly_slow(2)
def test_a_build_script_runs_once(toy: Workspace, command: list[str]) -> None:
    script = f"{COUNT}{PREAMBLE}\nfrom proj.models.toy.patches import forward\n"
    script += "config.override_method('Norm.forward', replacement=forward)\n"
    toy.write("proj/models/toy/patches.py", "def forward(self, x):\n    return x * 2\n")
    toy.write("proj/models/toy/build.py", script + BUILD)
    assert run(toy, *command) == "1"
    assert runs(toy) == 1


@pytest.mark.parametrize("name", ["build.py", "toy_gpu_patch_gen_config.py"])
def test_a_script_that_holds_its_patches_runs_once(toy: Workspace, name: str) -> None:
    toy.write(f"proj/models/toy/{name}", f"{COUNT}{PREAMBLE}{PATCH}{BUILD}")
    assert run(toy, f"proj/models/toy/{name}") == "1"
    assert runs(toy) == 1


def test_spawned_workers_run_the_script_no_more_often_than_python_does(toy: Workspace) -> None:
    toy.write("build.py", f"{COUNT}{PREAMBLE}{PATCH}{WORKERS}")
    assert run(toy, "build.py") == "1 1 1"
    assert runs(toy) == 2  # the script, and the worker that Python starts
    assert len({(toy.root / f"build/{number}.py").read_text() for number in (1, 2, 3)}) == 1


def test_an_interpreter_generates_the_config_of_a_module(toy: Workspace) -> None:
    toy.config(COUNT + PATCH)
    typed = f"from proj.models.toy.toy_gpu_patch_gen_config import config\n{BUILD}"
    assert run(toy, "-", typed=typed) == "1"
    assert runs(toy) == 1


def test_what_was_typed_where_no_source_is_kept_is_an_error(toy: Workspace) -> None:
    typed = f"{PREAMBLE}{PATCH}\nfrom patchgen import ModelingCodeGenerator\n"
    typed += "try:\n    ModelingCodeGenerator(config).generate()\nexcept Exception as error:\n    print(error)\n"
    assert "cannot read the source of 'norm_forward'" in run(toy, "-", typed=typed)


def test_notebook_cells_generate(toy: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell is a text of its own, which IPython gives to linecache under a name that is no file."""
    cells = [PREAMBLE, PATCH, CELL]
    notebook = types.ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", notebook)
    monkeypatch.syspath_prepend(str(toy.site))
    monkeypatch.chdir(toy.root)
    for number, cell in enumerate(cells):
        name = f"/nowhere/ipykernel_1/{number}.py"
        monkeypatch.setitem(linecache.cache, name, (len(cell), None, cell.splitlines(keepends=True), name))
        exec(compile(cell, name, "exec"), vars(notebook))
    text = ModelingCodeGenerator(notebook.config).generate(Path("build/patched.py"))
    assert "first_argument=x * 2" in text
    assert "return x + 3" in text


@pytest.mark.parametrize("place", ["toy/build.py", "toy/base.py"])
@pytest.mark.slow
def test_patches_under_type_checking_are_missed_by_reading(toy: Workspace, place: str) -> None:
    hidden = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:" + PATCH.replace("\n", "\n    ") + "\n"
    is_own = place.endswith("build.py")
    toy.config(hidden, place, PREAMBLE)
    if not is_own:
        preamble = f"{PREAMBLE}from proj.models.toy.base import config as base\nconfig.patches.extend(base.patches)\n"
        toy.config("", "toy/build.py", preamble)
    code = "from proj.models.toy.build import config\nfrom patchgen import ModelingCodeGenerator\n"
    code += "try:\n    print(ModelingCodeGenerator(config).generate())\nexcept Exception as error:\n    print(error)"
    assert "lacks the patch of 'Norm.forward' that its file declares" in run(toy, "-c", code)


def test_patches_of_another_config_under_type_checking_are_not_missed(toy: Workspace) -> None:
    hidden = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:" + PATCH.replace("\n", "\n    ") + "\n"
    second = PREAMBLE.replace("config = ", "other = ").replace("patched_", "other_")
    toy.config(hidden.replace("@config.", "@other.") + PATCH, "toy/build.py", PREAMBLE + second)
    code = "from proj.models.toy.build import config\nfrom patchgen import ModelingCodeGenerator\n"
    assert "x * 2" in run(toy, "-c", f"{code}print(ModelingCodeGenerator(config).generate())")
