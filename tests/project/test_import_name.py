"""The reference's distribution, which has the import name ``patchgen`` as well, installed beside this one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Workspace

HINT = "Run 'pip uninstall patchgen', and then 'pip install --force-reinstall --no-deps pytest-patchgen'."


def install_other(site: Path, record: str = "patchgen/__init__.py,sha256=abc,1\n") -> None:
    """Lay a small distribution called patchgen into a folder, over what is there."""
    (site / "patchgen").mkdir(parents=True, exist_ok=True)
    (site / "patchgen/__init__.py").write_text("class PatchConfig: ...\n")
    metadata = site / "patchgen-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: patchgen\nVersion: 0.1.0\n")
    (metadata / "RECORD").write_text(record)


def install_own(site: Path) -> None:
    for name in ("patchgen", "patchgen_core"):
        shutil.copytree(ROOT / name, site / name, ignore=shutil.ignore_patterns("__pycache__"))


def check(work: Workspace, *sites: Path) -> tuple[int, str]:
    path = os.pathsep.join(map(str, (*sites, work.site)))
    command = [sys.executable, "-m", "patchgen_core", "--check"]
    env = {**os.environ, "PYTHONPATH": path, "COLUMNS": "1000"}
    done = subprocess.run(command, cwd=work.root, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_another_folder_that_is_found_first_is_named(gated: Workspace, tmp_path: Path) -> None:
    install_other(tmp_path / "first")
    message = f"'import patchgen' finds patchgen 0.1.0 in '{tmp_path / 'first'}', not pytest-patchgen"
    assert check(gated, tmp_path / "first") == (2, f"error: {message}: both have that import name\n  {HINT}\n")


def test_files_over_each_other_are_named(gated: Workspace, tmp_path: Path) -> None:
    install_own(tmp_path)
    install_other(tmp_path)
    message = f"patchgen 0.1.0 and pytest-patchgen are both installed in '{tmp_path}', over each other's files"
    assert check(gated, tmp_path) == (2, f"error: {message}: both have the import name 'patchgen'\n  {HINT}\n")


@pytest.mark.parametrize("record", ["__editable__.patchgen-0.1.0.pth,sha256=abc,1\n", ""], ids=["editable", "empty"])
@pytest.mark.mostly_slow(1)
def test_one_whose_files_are_elsewhere_does_no_harm(gated: Workspace, tmp_path: Path, record: str) -> None:
    install_other(tmp_path, record)
    shutil.rmtree(tmp_path / "patchgen")
    install_own(tmp_path)
    install_other(tmp_path / "last")
    assert check(gated, tmp_path, tmp_path / "last") == (0, "1 config: 1 clean.\n")


def test_parts_of_this_package_in_two_folders_are_it(gated: Workspace, tmp_path: Path) -> None:
    """So nodes of a cluster have it; another distribution is still told from it there."""
    install_own(tmp_path / "all")
    for name in ("patchgen", "patchgen_core"):
        (tmp_path / f"of-{name}").mkdir()
        shutil.move(tmp_path / "all" / name, tmp_path / f"of-{name}")
    parts = [tmp_path / "of-patchgen", tmp_path / "of-patchgen_core"]
    assert check(gated, *parts) == (0, "1 config: 1 clean.\n")
    install_other(tmp_path / "first")
    code, text = check(gated, tmp_path / "first", *parts)
    assert code == 2
    assert f"'import patchgen' finds patchgen 0.1.0 in '{tmp_path / 'first'}'" in text
