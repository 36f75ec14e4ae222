"""What may stand where a generated file should, and files that no config makes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from patchgen_core.checks.checked_in import compare as drift
from tests.build.two_configs import CONFIG, names
from tests.conftest import PATCH, Workspace, generated
from tests.conftest import UPSTREAM_TEXT as UPSTREAM

SECOND = 'second = PatchConfig("acme.models.toy.modeling_toy", "patched_modeling_second.py")\n'


def orphans(work: Workspace) -> list[str]:
    return [path.relative_to(work.models).as_posix() for path in work.check().orphans]


# --- what may stand where a generated file should --------------------------------------------------


@pytest.mark.parametrize("suffix", [".py", ".diff"])
@pytest.mark.parametrize("arguments", [["--check"], ["--check", "--fix"]], ids=" ".join)
def test_folder_in_place_of_a_generated_file_is_said(two: Workspace, suffix: str, arguments: list[str]) -> None:
    generated(two, suffix).unlink()
    generated(two, suffix).mkdir()
    done = two.patchgen(*arguments)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert generated(two, suffix).name in done.stdout + done.stderr


def test_link_to_itself_in_place_of_a_generated_file_is_said(gated: Workspace) -> None:
    generated(gated).unlink()
    generated(gated).symlink_to(generated(gated).name)
    done = gated.patchgen("--check")
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "Latin-1 comment": lambda data: data + b"# caf\xe9\n",
    "binary": lambda data: b"\xff\xfe\x00\x01binary",
    "null character": lambda data: data + b"x = '\x00'\n",
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "no last newline": lambda data: data.rstrip(b"\n"),
    "empty": lambda data: b"",
    "conflict markers": lambda data: data.replace(b"return x", b"<<<<<<< HEAD\n=======\n>>>>>>> theirs"),
    "upstream's own text": lambda data: UPSTREAM.encode(),
}


@pytest.mark.parametrize("suffix", [".py", ".diff"])
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.mostly_slow(3)
def test_damaged_file_is_an_edit_by_hand_and_mended(gated: Workspace, damage: str, suffix: str) -> None:
    path = generated(gated, suffix)
    wanted = path.read_bytes()
    path.write_bytes(DAMAGE[damage](wanted))
    (result,) = gated.check().results
    assert [cause.kind for cause in result.causes] == ["edited by hand"]
    drift.fix(gated.check())
    assert path.read_bytes() == wanted


@pytest.mark.parametrize("line", ["@@ nonsense\n", "@@ -1 +x @@\n", "@\n", "\x00\n", "caf\udce9\n"], ids=ascii)
def test_damaged_diff_does_not_hide_that_upstream_moved(gated: Workspace, line: str) -> None:
    path = generated(gated, ".diff")
    path.write_bytes(path.read_bytes() + line.encode(errors="surrogateescape"))
    gated.upstream(UPSTREAM.replace("-x", "+x"))
    (result,) = gated.check().results
    assert [cause.kind for cause in result.causes] == ["upstream moved"]


def test_diff_whose_upstream_is_no_python_does_not_hide_that_upstream_moved(gated: Workspace) -> None:
    path = generated(gated, ".diff")
    path.write_text(path.read_text().replace("-        return x\n", "-        return (\n"))
    gated.upstream(UPSTREAM.replace("-x", "+x"))
    (result,) = gated.check().results
    assert [cause.kind for cause in result.causes] == ["upstream moved"]


@pytest.mark.parametrize("encoding", ["utf-8:strict", "ascii", "latin-1"])
@pytest.mark.mostly_slow(1)
def test_any_text_can_be_shown_on_any_terminal(gated: Workspace, encoding: str) -> None:
    path = generated(gated)
    path.write_bytes(path.read_bytes().replace(b"return x * 2", b"return 'caf\xe9 \xe2\x98\x83'"))
    done = subprocess.run(
        [sys.executable, "-m", "patchgen_core", "--check"],
        cwd=gated.root,
        env={**os.environ, "PYTHONPATH": str(gated.site), "PYTHONIOENCODING": encoding},
        capture_output=True,
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode == 1
    assert b"+        return x * 2\n" in done.stdout


@pytest.mark.slow
def test_huge_difference_is_shown_in_seconds(gated: Workspace) -> None:
    generated(gated).write_text("".join(f"x{number % 7} = {number}\n" for number in range(20_000)))
    started = time.monotonic()
    done = gated.patchgen("--check", "-v")
    assert done.returncode == 1
    assert done.stdout.count("\n-x") == 20_000
    assert time.monotonic() - started < 10


def test_long_paths_are_printed_on_one_line(gated: Workspace) -> None:
    path = generated(gated).with_name(f"patched_{'long_' * 12}.py")
    shutil.copy(generated(gated), path)
    done = gated.patchgen("--check", "--fix", "--prune", COLUMNS="60")
    assert f"removed  {path.relative_to(gated.root).as_posix()}" in done.stdout.splitlines()


# --- orphans ---------------------------------------------------------------------------------------


def test_orphan_in_a_subfolder(gated: Workspace) -> None:
    config = gated.models / "toy/toy_gpu_patch_gen_config.py"
    text = config.read_text()
    config.write_text(text.replace("patched_modeling_toy_gpu.py", "sub/patched.py"))
    assert drift.fix(gated.check(), prune=True).exit_code == 0
    assert names(generated(gated).parent) == ["sub"]
    config.write_text(text)
    drift.fix(gated.check())
    assert orphans(gated) == ["toy/generated/sub/patched.diff", "toy/generated/sub/patched.py"]


def test_diff_without_its_module_is_an_orphan(gated: Workspace) -> None:
    generated(gated, ".diff").rename(generated(gated).with_name("old.diff"))
    drift.fix(gated.check())
    assert orphans(gated) == ["toy/generated/old.diff"]


def test_files_of_a_deleted_config_are_orphans(two: Workspace) -> None:
    shutil.rmtree(two.models / "other")
    (two.models / "toy/deep/generated").mkdir(parents=True)
    shutil.copy(generated(two), two.models / "toy/deep/generated/old.py")
    assert orphans(two) == ["toy/deep/generated/old.py"]


def test_handwritten_files_are_neither_orphans_nor_pruned(gated: Workspace) -> None:
    folder = generated(gated).parent
    for name, text in {
        "__init__.py": "from .patched_modeling_toy_gpu import *\n",
        "helpers.py": "x = 1\n",
        "notes.py": f"# How it is made\n\n\n# {'=' * 78}\n#  AUTO-GENERATED FILE - DO NOT EDIT DIRECTLY\n",
        "mine.diff": "--- a/mine.py\n+++ b/mine.py\n",
        "README.md": "AUTO-GENERATED FILE - DO NOT EDIT DIRECTLY\n",
        "empty.diff": "",
        "binary.py": "\x00\x01",
    }.items():
        (folder / name).write_text(text)
    before = names(folder)
    report = drift.fix(gated.check(), prune=True)
    assert (report.exit_code, report.orphans, report.removed) == (0, (), ())
    assert names(folder) == before


def test_copies_outside_of_output_folders_are_no_orphans(gated: Workspace, tmp_path: Path) -> None:
    """Wherever the project itself stands."""
    shutil.copy(generated(gated), gated.models / "toy/golden.py")
    assert orphans(gated) == []
    moved = tmp_path / "generated" / "work"
    shutil.copytree(gated.root, moved)
    gated.root, gated.models = moved, moved / "proj" / "models"
    assert orphans(gated) == []


@pytest.mark.parametrize("name", ["old.py", "old.diff"])
def test_dangling_link_in_an_output_folder_breaks_nothing(gated: Workspace, name: str) -> None:
    (generated(gated).parent / name).symlink_to("nowhere")
    assert gated.check().exit_code == 0


def test_orphans_in_a_linked_output_folder_are_found(gated: Workspace, tmp_path: Path) -> None:
    folder = generated(gated).parent
    folder.rename(tmp_path / "outside")
    folder.symlink_to(tmp_path / "outside")
    shutil.copy(generated(gated), folder / "old.py")
    assert orphans(gated) == ["toy/generated/old.py"]


@pytest.mark.parametrize("arguments", [["--check", "-c", "second"], ["--check", CONFIG]], ids=" ".join)
def test_checking_a_part_of_a_project_finds_no_orphans(gated: Workspace, arguments: list[str]) -> None:
    """What the rest of the configs make is not in sight, so nothing may be removed either."""
    gated.config(PATCH + SECOND)
    drift.fix(gated.check())
    before = names(generated(gated).parent)
    done = gated.patchgen(*arguments, "--fix", "--prune")
    assert "orphan" not in done.stdout
    assert names(generated(gated).parent) == before


def test_prune_removes_orphans_and_says_so(gated: Workspace) -> None:
    shutil.copy(generated(gated), generated(gated).with_name("old.py"))
    done = gated.patchgen("--check", "--fix")
    assert done.returncode == 1
    assert "orphan   proj/models/toy/generated/old.py: no config makes it now\n" in done.stdout
    done = gated.patchgen("--check", "--fix", "--prune")
    assert (done.returncode, done.stdout) == (
        0,
        "removed  proj/models/toy/generated/old.py\n1 config: 1 clean.\n",
    )


def test_orphan_that_is_gone_already_is_no_error(gated: Workspace) -> None:
    """Another run may have been faster."""
    shutil.copy(generated(gated), generated(gated).with_name("old.py"))
    report = gated.check()
    generated(gated).with_name("old.py").unlink()
    assert drift.fix(report, prune=True).exit_code == 0
