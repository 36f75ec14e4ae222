"""The files on disk: how they are written, found, judged and removed, and that their bytes never vary."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in import compare as drift
from patchgen_core.config.loading import Loader
from patchgen_core.errors import PatchgenError
from patchgen_core.files import write_files
from patchgen_core.syntax.diffs import reverse_diff, unified_diff
from patchgen_core.syntax.source import SourceCache
from tests.conftest import PATCH, Workspace, generated
from tests.conftest import UPSTREAM_TEXT as UPSTREAM

SECOND = 'second = PatchConfig("acme.models.toy.modeling_toy", "patched_modeling_second.py")\n'
CONFIG = "proj.models.toy.toy_gpu_patch_gen_config"
OTHER = "other/other_patch_gen_config.py"


@pytest.fixture
def two(gated: Workspace) -> Workspace:
    """A project whose two configs are clean."""
    path = gated.config(PATCH, OTHER)
    path.write_text(path.read_text().replace("toy_gpu.py", "other.py"))
    drift.fix(gated.check())
    return gated


def others(work: Workspace) -> Path:
    return work.models / "other/generated/patched_modeling_other.py"


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def orphans(work: Workspace) -> list[str]:
    return [path.relative_to(work.models).as_posix() for path in work.check().orphans]


# --- writing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["preparing", "replacing"])
def test_a_killed_run_leaves_each_file_old_or_new(tmp_path: Path, moment: str) -> None:
    files = [tmp_path / f"file_{number:04}.py" for number in range(1500)]
    for path in files:
        path.write_text("old\n")
    code = (
        "import sys; from pathlib import Path; from patchgen_core.build.artifacts import write_files; "
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
    generated(two).write_text("# edited\n")
    others(two).unlink()
    others(two).mkdir()
    assert two.patchgen("--all", "--diff").returncode == 2
    assert generated(two).read_text() == "# edited\n"
    others(two).rmdir()
    assert two.patchgen("--all", "--diff").returncode == 0
    assert two.check().exit_code == 0


def test_fix_mends_the_others_of_a_broken_config(two: Workspace) -> None:
    for path in (generated(two), others(two)):
        path.write_text("# edited\n")
    two.config("config.exclude_from_output('Nrom')\n", OTHER)
    done = two.patchgen("--check", "--fix", "--prune")
    assert done.returncode == 2
    assert f"fixed    {CONFIG}" in done.stdout
    assert done.stdout.endswith("2 configs: 1 fixed, 1 error.\n")
    assert others(two).read_text() == "# edited\n"
    assert "return x * 2" in generated(two).read_text()


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


def test_huge_difference_is_shown_in_seconds(gated: Workspace) -> None:
    generated(gated).write_text("".join(f"x{number % 7} = {number}\n" for number in range(20_000)))
    started = time.monotonic()
    done = gated.patchgen("--check")
    assert done.returncode == 1
    assert done.stdout.count("\n-x") == 20_000
    assert time.monotonic() - started < 10


def test_long_paths_are_printed_on_one_line(gated: Workspace) -> None:
    path = generated(gated).with_name(f"patched_{'long_' * 12}.py")
    shutil.copy(generated(gated), path)
    done = gated.patchgen("--check", "--fix", "--prune", COLUMNS="60")
    assert f"removed  {path.relative_to(gated.root).as_posix()}" in done.stdout.splitlines()


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
    assert "orphan   proj/models/toy/generated/old.py: no config makes it any more\n" in done.stdout
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


# --- the same bytes everywhere ---------------------------------------------------------------------

MIXED = """
from __future__ import annotations

import math
import os
from typing import Any

try:
    from fast import first, second, third
except ImportError:
    first = second = third = None

__all__ = ["Alpha", "Beta", "Delta", "Gamma", "rotate"]
NAME = "größer ☃"


class Alpha:
    def forward(self, x):
        return x


class Beta(Alpha): ...


class Gamma(Beta):
    def forward(self, x: Alpha) -> Beta:
        '''Größe.'''
        return x


class Delta: ...


class Epsilon: ...


def rotate(x: Any):
    return -x
"""
MIXED_PATCHES = """
from proj.models.toy.shared import scale

config.add_import("functools", names=["partial", "reduce"])
config.add_import("itertools")
config.drop_import_names("third", "first", "math")
config.exclude_from_output("Epsilon", "Delta")
config.add_helper(scale)


@config.replace_class("Alpha", description="Schöner")
class NewAlpha:
    def forward(self, x: "NewBeta | NewAlpha") -> "dict[NewAlpha, NewBeta]":
        return partial(reduce, itertools.chain(NewBeta, NewAlpha, scale(x), turned(x)))


@config.replace_class("Beta")
class NewBeta(NewAlpha):
    pass


@config.override_method("Gamma.forward", name_map={"Old": "Gamma", "Other": "Beta", "Third": "Alpha"})
def gamma_forward(self, x: "Old | Other | Third") -> NewBeta:
    # Größe
    return NewAlpha, NewBeta, turned, scale


@config.replace_function("rotate")
def turned(x):
    return NewAlpha, NewBeta
"""


@pytest.fixture
def mixed(work: Workspace) -> Workspace:
    """A project of two configs that use about everything, and characters that are not ASCII."""
    work.upstream(MIXED)
    work.write("proj/models/toy/shared.py", "def scale(x):\n    return x * 2\n")
    work.config(MIXED_PATCHES)
    path = work.config(MIXED_PATCHES, OTHER)
    path.write_text(path.read_text(encoding="utf-8").replace("toy_gpu.py", "other.py"), encoding="utf-8")
    return work


def texts(work: Workspace) -> dict[str, bytes]:
    return {path.relative_to(work.models).as_posix(): path.read_bytes() for path in work.models.rglob("generated/*")}


def regenerated(work: Workspace, folder: str = ".", environment: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """What a process of its own generates, started in a folder of the project."""
    for old in list(work.models.rglob("generated")):
        shutil.rmtree(old)
    env = {**os.environ, "PYTHONPATH": str(work.site), **(environment or {})}
    command = [sys.executable, "-m", "patchgen_core", "--all", "--diff"]
    done = subprocess.run(command, cwd=work.root / folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return texts(work)


ENVIRONMENTS: dict[str, dict[str, str]] = {
    "locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
    "others": {
        **{"HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent", "USER": "someone", "TZ": "Asia/Tokyo"},
        **{"PYTHONOPTIMIZE": "2", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"},
        **{"RUFF_CONFIG": "/nonexistent.toml", "RUFF_LINE_LENGTH": "20", "RUFF_NO_CACHE": "1"},
    },
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_same_bytes_in_any_environment(mixed: Workspace, name: str) -> None:
    drift.fix(mixed.check())
    before = texts(mixed)
    assert len(before) == 4
    assert regenerated(mixed, environment=ENVIRONMENTS[name]) == before


def test_same_bytes_with_any_hash_seed(mixed: Workspace) -> None:
    """Sets of strings are ordered differently in each of these."""
    first, *others = (regenerated(mixed, environment={"PYTHONHASHSEED": seed}) for seed in ("0", "1", "2"))
    assert all(other == first for other in others)


def test_names_that_change_places_in_an_annotation(work: Workspace) -> None:
    """Each is renamed once, whichever comes first."""
    work.upstream("class Alpha: ...\n\n\nclass Beta: ...\n\n\ndef join(x): ...\n")
    work.config(
        """
        @config.replace_class("Beta")
        class Alpha:
            pass

        @config.replace_class("Alpha")
        class Beta:
            pass

        @config.replace_function("join")
        def join(x: "Alpha | Beta"):
            pass
        """
    )
    assert 'def join(x: "Beta | Alpha"):' in work.text()


def test_same_bytes_in_any_working_directory(mixed: Workspace) -> None:
    drift.fix(mixed.check())
    before = texts(mixed)
    for folder in ("proj/models", "proj/models/toy"):
        assert regenerated(mixed, folder) == before


def test_same_bytes_in_another_folder(mixed: Workspace, tmp_path: Path) -> None:
    drift.fix(mixed.check())
    before = texts(mixed)
    moved = tmp_path / "ein Ordner ☃" / "generated" / "work"
    shutil.copytree(mixed.root, moved)
    mixed.root, mixed.models = moved, moved / "proj" / "models"
    assert regenerated(mixed) == before


def test_same_bytes_in_any_order_alone_or_together(mixed: Workspace) -> None:
    paths = mixed.project.find_configs()

    def made(configs: list[Path], full: bool = False) -> dict[Path, tuple[str, str]]:
        loader = Loader(mixed.project, SourceCache(), full=full)
        outcomes = make_artifacts(Selection(mixed.project, configs), loader=loader)
        artifacts = [outcome.artifact for outcome in outcomes]
        return {artifact.path: (artifact.text, artifact.diff) for artifact in artifacts if artifact is not None}

    together = made(paths)
    assert len(together) == 2
    assert made(paths[::-1]) == together
    assert {**made(paths[:1]), **made(paths[1:])} == together
    assert made(paths, full=True) == together
