"""A project that nobody here tuned for, written for the reference's generator: checked, moved over, checked again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from patchgen_core.build.results import DriftReport
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.files import write_files
from patchgen_core.project.project import Project
from tools.real_project import find_needed, find_upstream_release, make_real_project
from tools.releases import REAL

pytestmark = [pytest.mark.torch, pytest.mark.slow]

CONFIGS = {"0.1.11": 24, "0.1.12": 29}
RUN = """
import atexit
import sys

from patchgen_core.cli.main import run

heavy = ("torch", "transformers", "libcst", "veomni")
atexit.register(lambda: print(*(name for name in heavy if name in sys.modules), file=sys.stderr))
run()
"""
REGENERATED = "made by another generator: regenerate once"
REST = "the rest is comments, annotations, layout and order"
SEARCH_ROOT = Path("veomni/models/transformers")
IMPORT = """
import importlib
import json
import sys

failures = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception as error:
        failures[name] = str(error)
print(json.dumps(failures))
"""
ABSENT: dict[str, dict[str, str]] = {
    "0.1.11": {},
    "0.1.12": {"qwen3_omni_moe_npu": "No module named 'torch_npu'"},
}
"""The generated modules that cannot be imported, by release, and why."""
TWICE = "the config's decorator is upstream's own as well: there it stands twice, here once"
OMNI = "Qwen3OmniMoePreTrainedModel._init_weights changed"
DIFFERENT = {
    ("0.1.11", "qwen3_omni_moe_gpu"): (OMNI, TWICE),
    ("0.1.12", "qwen3_omni_moe_gpu"): (OMNI, TWICE),
    ("0.1.12", "qwen3_omni_moe_npu"): (OMNI, TWICE),
}
"""What differs in code from what is checked in, by release and config, and why. All else is the same code."""


@dataclass(frozen=True)
class Real:
    """A release of the project as it is checked in, and what a check of it finds out."""

    version: str
    project: Project
    report: DriftReport

    def patchgen(self, *arguments: str) -> tuple[int, str, str]:
        """The exit code of the command, what it prints, and the heavy modules that it imports."""
        env = {**os.environ, "PYTHONPATH": str(find_upstream_release(self.version).folder), "COLUMNS": "200"}
        command = [sys.executable, "-c", RUN, *arguments]
        done = subprocess.run(command, cwd=self.project.base, env=env, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr.strip()

    def copy(self, folder: Path) -> Real:
        """Another one with files of its own."""
        shutil.copytree(self.project.base, folder / "real")
        return replace(self, project=replace(self.project, search_root=SEARCH_ROOT, root=folder / "real"))

    def texts(self) -> dict[Path, str]:
        """The files in the folders of generated ones."""
        files = self.project.search_root.glob("**/generated/*")
        return {path: path.read_text(encoding="utf-8") for path in files if path.is_file()}


@pytest.fixture(scope="module", params=REAL)
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Real:
    project = make_real_project(request.param, tmp_path_factory.mktemp("real"))
    return Real(request.param, project, check(Selection(project), artifacts=True))


def name_of(label: str) -> str:
    """The model and the device of a config."""
    return label.rpartition(".")[2].removesuffix("_patch_gen_config")


def test_every_config_loads_without_a_real_import_and_generates(real: Real) -> None:
    outcomes = [result.outcome for result in real.report.results]
    assert len(outcomes) == CONFIGS[real.version]
    assert [str(problem) for outcome in outcomes for problem in outcome.problems] == []
    assert [f"{o.label}: {o.loading_reason}" for o in outcomes if o.loading != "stubbed"] == []


def test_the_code_is_what_is_checked_in_but_for_what_is_explained(real: Real) -> None:
    causes = {
        name_of(result.outcome.label): " | ".join(map(str, result.causes))
        for result in real.report.results
        if result.status != "clean"
    }
    same = dict.fromkeys(causes, f"{REGENERATED}; only comments, annotations, layout and order differ")
    different = {name: what for (version, name), (what, _) in DIFFERENT.items() if version == real.version}
    assert causes == same | {name: f"{REGENERATED}; {what}; {REST}" for name, what in different.items()}
    assert len(causes) == CONFIGS[real.version]
    assert not real.report.orphans


def test_one_fix_moves_everything_over_and_no_check_imports_anything(real: Real, tmp_path: Path) -> None:
    copy = real.copy(tmp_path)
    code, output, heavy = copy.patchgen("--check", "--no-cache")
    assert (code, heavy) == (1, ""), output
    before = set(copy.texts())
    code, output, heavy = copy.patchgen("--check", "--fix")
    assert (code, heavy) == (0, "libcst"), output
    fixed = copy.texts()
    assert set(fixed) == before
    clean = f"{CONFIGS[real.version]} configs: {CONFIGS[real.version]} clean.\n"
    for arguments in (["--check"], ["--check", "--no-cache"]):
        assert copy.patchgen(*arguments) == (0, clean, "")
    assert copy.patchgen("--check", "--fix") == (0, clean, "libcst")  # which looks for what type checkers lack
    assert copy.texts() == fixed


def test_generated_modules_import_but_where_their_packages_cannot_be_had(real: Real, tmp_path: Path) -> None:
    copy = real.copy(tmp_path)
    artifacts = [result.outcome.artifact for result in real.report.results if result.outcome.artifact]
    folder = copy.project.base
    files = {folder / artifact.path.relative_to(real.project.base): artifact.text for artifact in artifacts}
    write_files(files.items())
    modules = [".".join(path.relative_to(folder).with_suffix("").parts) for path in files]
    places = [folder, *find_needed(), find_upstream_release(real.version).folder]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    command = [sys.executable, "-c", IMPORT, *modules]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    failures = json.loads(done.stdout.splitlines()[-1])
    assert {name.rpartition("_modeling_")[2]: error for name, error in failures.items()} == ABSENT[real.version]
