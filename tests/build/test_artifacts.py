"""The files on disk: how they are written, found, judged and removed, and that their bytes never vary."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchgen_core.checks.checked_in import compare as drift
from patchgen_core.errors import PatchgenError
from patchgen_core.files import write_files
from patchgen_core.syntax.diffs import reverse_diff, unified_diff
from tests.build.two_configs import CONFIG, OTHER_CONFIG, names, others
from tests.conftest import PATCH, Workspace, generated
from tests.conftest import UPSTREAM_TEXT as UPSTREAM

# --- writing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["preparing", "replacing"])
def test_a_killed_run_leaves_each_file_old_or_new(tmp_path: Path, moment: str) -> None:
    files = [tmp_path / f"file_{number:04}.py" for number in range(1500)]
    for path in files:
        path.write_text("old\n")
    code = (
        "import sys; from pathlib import Path; from patchgen_core.files import write_files; "
        "write_files((path, 'new\\n' * 50) for path in sorted(Path(sys.argv[1]).glob('file_*.py')))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    while process.poll() is None:
        if len(os.listdir(tmp_path)) > len(files) + 50 if moment == "preparing" else files[0].stat().st_size > 4:
            process.kill()
            break
    process.wait()
    assert {path.read_text() for path in files} <= {"old\n", "new\n" * 50}
    left = set(os.listdir(tmp_path)) - {path.name for path in files}
    assert all(name.startswith(".patchgen-") and not name.endswith((".py", ".diff")) for name in left)


def test_what_a_killed_run_left_behind_is_no_finding(gated: Workspace) -> None:
    left = generated(gated).with_name(".patchgen-k2j4x81b")
    shutil.copy(generated(gated), left)
    report = gated.check()
    assert (report.exit_code, report.orphans) == (0, ())


def test_nothing_is_written_when_one_place_is_a_folder(tmp_path: Path) -> None:
    first, folder = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text("old\n")
    folder.mkdir()
    with pytest.raises(PatchgenError, match=r"second\.py: cannot be read: Is a directory"):
        write_files([(first, "new\n"), (folder, "new\n")])
    assert first.read_text() == "old\n"
    assert names(tmp_path) == ["first.py", "second.py"]


def test_a_place_that_becomes_a_folder_meanwhile_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "first.py"

    def files() -> Iterator[tuple[Path, str]]:
        yield path, "new\n"
        path.mkdir()

    with pytest.raises(PatchgenError, match=r"first\.py: cannot be written"):
        write_files(files())
    assert names(tmp_path) == ["first.py"]


def test_an_interrupt_leaves_no_temporary_file(tmp_path: Path) -> None:
    def files() -> Iterator[tuple[Path, str]]:
        yield tmp_path / "first.py", "new\n"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_files(files())
    assert names(tmp_path) == []


def test_new_files_have_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_files([(tmp_path / "first.py", "new\n")])
    finally:
        os.umask(before)
    assert (tmp_path / "first.py").stat().st_mode & 0o777 == 0o640


def test_only_files_that_differ_are_written_and_returned(tmp_path: Path) -> None:
    same, changed = tmp_path / "same.py", tmp_path / "changed.py"
    same.write_text("text\n")
    changed.write_text("old\n")
    os.utime(same, (1, 1))
    assert write_files([(same, "text\n"), (changed, "new\n")]) == [changed]
    assert same.stat().st_mtime == 1


def test_missing_last_newline_and_carriage_returns_are_differences(tmp_path: Path) -> None:
    for text in ("text", "text\r\n"):
        (tmp_path / "file.py").write_bytes(text.encode())
        assert write_files([(tmp_path / "file.py", "text\n")]) == [tmp_path / "file.py"]


def test_dangling_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "link.py").symlink_to(tmp_path / "folder" / "target.py")
    write_files([(tmp_path / "link.py", "new\n")])
    assert (tmp_path / "link.py").is_symlink()
    assert (tmp_path / "folder" / "target.py").read_text() == "new\n"


def test_long_file_name(tmp_path: Path) -> None:
    path = tmp_path / f"{'a' * 252}.py"
    write_files([(path, "new\n")])
    assert path.read_text() == "new\n"


def test_read_only_folder_is_said_and_its_file_stays(gated: Workspace) -> None:
    path = generated(gated)
    path.write_text("# edited\n")
    path.parent.chmod(0o555)
    may_write = os.access(path.parent, os.W_OK)  # a superuser may
    done = gated.patchgen("--check", "--fix")
    path.parent.chmod(0o755)
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if may_write else 2)
    assert (path.read_text() == "# edited\n") is not may_write
    assert may_write or done.stderr == (
        "proj/models/toy/generated/patched_modeling_toy_gpu.py: error: cannot be written: Permission denied\n"
    )


def test_unreadable_file_is_said(gated: Workspace) -> None:
    path = generated(gated)
    path.chmod(0)
    may_read = os.access(path, os.R_OK)
    done = gated.patchgen("--check")
    path.chmod(0o644)
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if may_read else 2)
    assert may_read or "patched_modeling_toy_gpu.py" in done.stdout + done.stderr


def test_read_only_file_is_mended_and_stays_read_only(gated: Workspace) -> None:
    path = generated(gated)
    path.write_text("# edited\n")
    path.chmod(0o444)
    assert drift.fix(gated.check()).exit_code == 0
    assert gated.check().exit_code == 0
    assert path.stat().st_mode & 0o777 == 0o444


def test_output_folder_may_be_a_link(gated: Workspace, tmp_path: Path) -> None:
    folder = generated(gated).parent
    before = generated(gated).read_bytes()
    shutil.rmtree(folder)
    (tmp_path / "outside").mkdir()
    folder.symlink_to(tmp_path / "outside")
    assert drift.fix(gated.check()).exit_code == 0
    assert folder.is_symlink()
    assert names(tmp_path / "outside") == ["patched_modeling_toy_gpu.diff", "patched_modeling_toy_gpu.py"]
    assert generated(gated).read_bytes() == before
    assert gated.check().exit_code == 0


@pytest.mark.parametrize("arguments", [["--all"], ["--check", "--fix"]], ids=" ".join)
def test_output_folder_that_is_a_file_is_said(gated: Workspace, arguments: list[str]) -> None:
    shutil.rmtree(generated(gated).parent)
    generated(gated).parent.write_text("a file\n")
    done = gated.patchgen(*arguments)
    assert done.returncode == 2
    said = "proj/models/toy/generated/patched_modeling_toy_gpu.py: error: cannot be written: "
    assert said in done.stdout + done.stderr
    assert generated(gated).parent.read_text() == "a file\n"


def test_output_option_that_is_a_file_is_said(gated: Workspace) -> None:
    (gated.root / "out").write_text("a file\n")
    done = gated.patchgen(CONFIG, "-o", "out")
    assert done.returncode == 2
    assert done.stderr.startswith("out/patched_modeling_toy_gpu.py: error: cannot be written: ")


def test_a_config_never_overwrites_itself(gated: Workspace) -> None:
    config = gated.models / "toy/toy_gpu_patch_gen_config.py"
    config.write_text(config.read_text().replace("patched_modeling_toy_gpu.py", config.name))
    before = config.read_text()
    done = gated.patchgen(CONFIG, "-o", "proj/models/toy")
    assert (done.returncode, config.read_text()) == (2, before)


@pytest.mark.parametrize("name", ["a" * 300 + ".py", "a\\0b.py", "a\\nb.py"], ids=["long", "null", "newline"])
def test_impossible_file_name_is_an_error_of_its_config(gated: Workspace, name: str) -> None:
    config = gated.models / "toy/toy_gpu_patch_gen_config.py"
    config.write_text(config.read_text().replace("patched_modeling_toy_gpu.py", name))
    done = gated.patchgen("--check", "--fix")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert CONFIG in done.stdout


@pytest.mark.slow
def test_several_fixes_at_once_leave_consistent_files(two: Workspace) -> None:
    files = [generated(two), generated(two, ".diff"), others(two), others(two).with_suffix(".diff")]
    wanted = [path.read_bytes() for path in files]
    for path in files:
        path.write_text("# edited\n")
    env = {**os.environ, "PYTHONPATH": str(two.site)}
    command = [sys.executable, "-m", "patchgen_core", "--check", "--fix", "--prune"]
    running = [
        subprocess.Popen(command, cwd=two.root, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for _ in range(4)
    ]
    for process in running:
        said, _ = process.communicate()
        assert process.returncode == 0, said.decode()
    assert [path.read_bytes() for path in files] == wanted
    assert names(generated(two).parent) == ["patched_modeling_toy_gpu.diff", "patched_modeling_toy_gpu.py"]


def test_fix_changes_no_clean_file(two: Workspace) -> None:
    clean = [generated(two, ".diff"), others(two), others(two).with_suffix(".diff")]
    for path in clean:
        os.utime(path, (1, 1))
    generated(two).write_text("# edited\n")
    report = drift.fix(two.check())
    assert [file.path for result in report.results for file in result.files] == [generated(two)]
    assert [path.stat().st_mtime for path in clean] == [1, 1, 1]


def test_generating_again_changes_no_file(two: Workspace) -> None:
    files = [generated(two), others(two)]
    for path in files:
        os.utime(path, (1, 1))
    assert two.patchgen("--all", "--diff").returncode == 0
    assert [path.stat().st_mtime for path in files] == [1, 1]


def test_all_writes_everything_or_nothing(two: Workspace) -> None:
    generated(two).write_text("")
    others(two).unlink()
    others(two).mkdir()
    assert two.patchgen("--all", "--diff").returncode == 2
    assert generated(two).read_text() == ""
    others(two).rmdir()
    assert two.patchgen("--all", "--diff").returncode == 0
    assert two.check().exit_code == 0


def test_fix_mends_the_others_of_a_broken_config(two: Workspace) -> None:
    for path in (generated(two), others(two)):
        path.write_text("# edited\n")
    two.config("config.exclude_from_output('Nrom')\n", OTHER_CONFIG)
    done = two.patchgen("--check", "--fix", "--prune")
    assert done.returncode == 2
    assert f"fixed    {CONFIG}" in done.stdout
    assert done.stdout.endswith("2 configs: 1 fixed, 1 error.\n")
    assert others(two).read_text() == "# edited\n"
    assert "return x * 2" in generated(two).read_text()


# --- the diff --------------------------------------------------------------------------------------


@pytest.mark.parametrize("character", ["\x0c", "\x0b", "\x1c", "\x85", "\u2028", "\u2029"], ids=ascii)
def test_a_diff_has_the_lines_that_the_file_has(work: Workspace, character: str) -> None:
    """Only a newline ends a line: ``str.splitlines`` knows others, which ``patch`` and ``git`` do not."""
    work.upstream(f"NAME = 'a{character}b'\n\n\ndef rotate(x):\n    return -x\n")
    work.config('@config.replace_function("rotate")\ndef turn(x):\n    return +x\n')
    artifact = work.outcome().artifact
    assert artifact is not None
    assert "No newline" not in artifact.diff
    assert reverse_diff(artifact.text, artifact.diff) == artifact.base


def test_upstream_without_a_last_newline(work: Workspace) -> None:
    work.upstream(UPSTREAM.rstrip("\n"))
    work.config("")
    artifact = work.outcome().artifact
    assert artifact is not None
    assert artifact.base.endswith("return -x\n")
    assert "No newline" not in artifact.diff


def test_a_diff_says_where_the_last_newline_is_missing() -> None:
    assert unified_diff("a\nb", "a\nb\n", "old", "new") == (
        "--- old\n+++ new\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"
    )


def test_reversing_a_diff_of_an_empty_file() -> None:
    assert reverse_diff("a\n", unified_diff("", "a\n", "old", "new")) == ""


def test_diff_that_a_generation_left_behind_is_no_edit_by_hand(gated: Workspace) -> None:
    gated.config(PATCH.replace("x * 2", "x * 3"))
    assert gated.patchgen(CONFIG).returncode == 0
    (result,) = gated.check().results
    assert "edited by hand" not in [cause.kind for cause in result.causes]
