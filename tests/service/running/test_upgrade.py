"""Upgrading a repository in the real bubblewrap, with the transformers that is installed as the release."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from service_samples import GitProject

from patchgen_service.environments import PythonEnvironment
from patchgen_service.isolation.box import MEBIBYTE, Limits
from patchgen_service.isolation.probe import Isolation
from patchgen_service.running.order import RunOrder
from patchgen_service.running.run import Workplace
from patchgen_service.running.upgrade import UpgradeFailed, UpgradeWork, pin_release, upgrade_checkout
from tests.service.running.test_release_study import NEW, make_history, make_old_release

pytestmark = pytest.mark.torch

LIMITS = Limits(seconds=120, memory=2048 * MEBIBYTE, processes=64, disk=64 * MEBIBYTE)
LLAMA = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.llama.modeling_llama", "patched_modeling_llama.py")


@config.override_method("LlamaRMSNorm.reset")
def reset(self):
    return self.weight
"""
QWEN2 = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.qwen2.modeling_qwen2", "patched_modeling_qwen2.py")


@config.override_method("Qwen2RMSNorm.extra_repr")
def extra_repr(self):
    return "patched"
"""


@pytest.fixture(scope="module")
def old_project(tmp_path_factory: pytest.TempPathFactory) -> GitProject:
    """A project whose generated files are for an old release; the one of llama cannot follow the new one."""
    folder = tmp_path_factory.mktemp("old")
    project = GitProject(folder / "repository")
    shutil.rmtree(project.folder / "models/toy")
    project.write("sub/models/llama/llama_patch_gen_config.py", LLAMA)
    project.write("sub/models/qwen2/qwen2_patch_gen_config.py", QWEN2)
    project.write("constraints.txt", "torch\ntransformers==5.1.0  # for now\n")
    project.write("sub/pyproject.toml", (project.folder / "pyproject.toml").read_text() + "diffs = true\n")
    inner = GitProject.__new__(GitProject)
    inner.folder = project.folder / "sub"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(make_old_release(folder / "old")))
        done = inner.patchgen("--check", "--fix")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    project.commit("Begin")
    return project


@pytest.fixture
def project(old_project: GitProject, tmp_path: Path) -> GitProject:
    return old_project.copy_to(tmp_path / "repository")


def _upgrade(
    project: GitProject,
    folder: Path,
    environment: PythonEnvironment | None = None,
    history: Path | None = None,
) -> UpgradeWork:
    order = RunOrder("upgrade-1", "acme/models", "url", "a" * 40, projects=("sub",), transformers=NEW)
    place = Workplace(folder / "work", folder / "environments", Isolation("bubblewrap"), (folder / "data",), LIMITS)
    place = replace(place, history=history)
    own = environment or PythonEnvironment(Path(sys.executable))
    return upgrade_checkout(project.folder, order, own, "bubblewrap", place)


def _say(folder: Path, text: str) -> PythonEnvironment:
    """An environment of which the interpreter says a text, whatever it is asked."""
    place = folder / "python"
    place.mkdir()
    (place / "said").write_text(f"{text}\n")
    (place / "python").write_text(f"#!/bin/sh\ncat '{place}/said'\n")
    (place / "python").chmod(0o755)
    return PythonEnvironment(place / "python", {place: place})


def test_what_merges_is_carried_and_the_rest_is_told_by_its_cause(project: GitProject, tmp_path: Path) -> None:
    work = _upgrade(project, tmp_path)
    assert sorted(work.files) == [
        "sub/models/llama/generated/patched_modeling_llama.diff",
        "sub/models/llama/generated/patched_modeling_llama.py",
        "sub/models/qwen2/generated/patched_modeling_qwen2.diff",
        "sub/models/qwen2/generated/patched_modeling_qwen2.py",
    ]
    assert NEW.encode() in work.files["sub/models/qwen2/generated/patched_modeling_qwen2.py"]
    assert work.rest == {"reset gone": ("sub/models/llama/llama_patch_gen_config.py",)}


@pytest.mark.slow  # tests of the release study name them too
def test_the_rest_says_which_change_of_upstreams_it_was_where_a_clone_is_there(
    old_project: GitProject, tmp_path: Path
) -> None:
    history = make_history(tmp_path / "history", make_old_release(tmp_path / "old"))
    work = _upgrade(old_project.copy_to(tmp_path / "first"), tmp_path, history=history)
    assert list(work.rest) == ["reset gone (upstream's #77 Norms keep what they have)"]
    subprocess.run(["git", "tag", "--delete", f"v{NEW}"], cwd=history, check=True, capture_output=True)
    for clone in (history, tmp_path / "nowhere"):
        other = old_project.copy_to(tmp_path / f"again-{clone.name}")
        assert list(_upgrade(other, tmp_path, history=clone).rest) == ["reset gone"]


@pytest.mark.parametrize(
    "path", ["../../secret", "/etc/hostname", "link/secret", "models/secret-link", "models", "models/none", "a\0b"]
)
def test_what_leads_out_of_the_worktree_is_left_out(project: GitProject, tmp_path: Path, path: str) -> None:
    """The report comes from where the code of the repository runs."""
    (tmp_path / "secret").write_text("secret")
    (project.folder / "sub/link").symlink_to(tmp_path)
    (project.folder / "sub/models/secret-link").symlink_to(tmp_path / "secret")
    applied = {"written": [path, "models/llama/llama_patch_gen_config.py"], "generated": []}
    work = _upgrade(project, tmp_path, _say(tmp_path, json.dumps({"errors": [], "applied": applied})))
    assert list(work.files) == ["sub/models/llama/llama_patch_gen_config.py"]


@pytest.mark.parametrize("output", ["", "null", "{", '{"errors": [{"message": "no such release"}]}', '{"applied": 5}'])
def test_an_upgrade_that_says_nothing_sensible_has_failed(project: GitProject, tmp_path: Path, output: str) -> None:
    with pytest.raises(UpgradeFailed, match="no such release" if "release" in output else "wrote no report"):
        _upgrade(project, tmp_path, _say(tmp_path, output))


def test_constraints_name_the_release_afterwards() -> None:
    text = "torch==2.9\nTransformers == 5.1.0 ; python_version > '3.9'\ntransformers-stream==1\n# transformers==1\n"
    assert pin_release(text, "5.30.0") == text.replace("Transformers == 5.1.0", "Transformers == 5.30.0")
    assert pin_release("transformers>=5\n", "5.30.0") == "transformers>=5\n"
