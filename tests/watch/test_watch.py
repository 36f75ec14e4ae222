"""``patchgen --watch``: what a save brings about, and what it does not."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from patchgen_core.build.cache import Cache
from tests.conftest import CONFIG, PATCH, PREAMBLE, UPSTREAM_TEXT, Workspace, generated
from tests.watch.conftest import END, Start

HEIR = "heir/heir_gpu_patch_gen_config.py"
OTHER = "other/other_gpu_patch_gen_config.py"
LABEL = "proj.models.toy.toy_gpu_patch_gen_config"
PROBLEM = "\nconfig.exclude_from_output('Nothing')\n"
TRIPLED = PATCH.replace("x * 2", "x * 3")


def preamble(target: str) -> str:
    return PREAMBLE.replace("patched_modeling_toy_gpu.py", target)


def rewrite(path: Path, text: str) -> None:
    path.write_text(text)


def move_over(path: Path, text: str) -> None:
    """As editors do that write a file beside it first."""
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_text(text)
    os.replace(beside, path)


def move_away(path: Path, text: str) -> None:
    """As vim does, which keeps the old file for a moment."""
    backup = path.with_name(f"{path.name}~")
    path.rename(backup)
    time.sleep(0.03)
    path.write_text(text)
    backup.unlink()


def empty_first(path: Path, text: str) -> None:
    """As editors do that take a moment from the truncated file to the new text."""
    with path.open("w") as file:
        file.flush()
        time.sleep(0.03)
        file.write(text)


def test_a_save_that_breaks_a_contract_is_told(gated: Workspace, start: Start) -> None:
    watch = start(gated)
    rewrite(gated.models / CONFIG, PREAMBLE + PATCH.replace("(self, x)", "(self, y)").replace("x * 2", "y * 2"))
    watch.update()
    assert "error: PG201 'Norm.forward' renames upstream's 'x' to 'y'" in watch.until("PG201")


def test_what_has_drifted_is_rewritten_at_the_start(gated: Workspace, start: Start) -> None:
    gated.config(TRIPLED)
    watch = start(gated)
    assert f"fixed    {LABEL}  config changed: Norm.forward changed\n" in watch.started
    assert "return x * 3" in generated(gated).read_text()
    watch.assert_quiet()


@pytest.mark.parametrize("save", [rewrite, move_over, move_away, empty_first])
@pytest.mark.mostly_slow(1)
def test_a_save_is_generated_once_and_shown(gated: Workspace, start: Start, save: Callable[[Path, str], None]) -> None:
    watch = start(gated)
    save(gated.models / CONFIG, PREAMBLE + TRIPLED)
    said = watch.update()
    assert said.startswith(f"\nproj/models/{CONFIG}: changed\nfixed    {LABEL}  config changed: Norm.forward ")
    assert "-        return x * 2\n+        return x * 3\n" in said
    assert "         wrote proj/models/toy/generated/patched_modeling_toy_gpu.diff\n" in said
    assert said.splitlines()[-1].startswith("1 config: 1 fixed. Took ")
    assert "return x * 3" in generated(gated).read_text()
    watch.assert_quiet()
    assert gated.check().exit_code == 0


@pytest.mark.slow
def test_a_save_that_changes_nothing_generated_is_told_of(gated: Workspace, start: Start) -> None:
    watch = start(gated)
    gated.config("# a remark\n" + PATCH)
    assert watch.update().splitlines()[-1].startswith("1 config: 1 clean. Took ")


@pytest.mark.slow
def test_a_save_of_the_same_text_and_other_files_are_passed_over(gated: Workspace, start: Start) -> None:
    watch = start(gated)
    gated.config(PATCH)
    for path in ("proj/models/toy/__pycache__/a.pyc", "proj/models/toy/notes.md", "proj/models/toy/.a.py.swp"):
        gated.write(path, "noise")
    gated.write("proj/models/toy/unused.py", "x = 1\n")
    watch.assert_quiet()


@pytest.mark.slow
def test_a_saved_sibling_concerns_the_configs_that_import_it(gated: Workspace, start: Start) -> None:
    inherits = "from proj.models.toy.toy_gpu_patch_gen_config import norm_forward\n"
    inherits += 'config.override_method("Norm.forward", replacement=norm_forward)\n'
    gated.config(inherits, HEIR, preamble("heir.py"))
    gated.config("config.exclude_from_output('Head')\n", OTHER, preamble("other.py"))
    watch = start(gated)
    gated.config(TRIPLED)
    said = watch.update()
    assert "fixed    proj.models.heir." in said
    assert said.splitlines()[-1].startswith("2 configs: 2 fixed.")
    assert "return x * 3" in (gated.models / "heir/generated/heir.py").read_text()


@pytest.mark.slow
def test_the_last_of_many_saves_counts(gated: Workspace, start: Start) -> None:
    watch = start(gated)
    for number in range(20, 30):
        gated.config(PATCH.replace("x * 2", f"x * {number}"))
        time.sleep(number / 500)
    watch.until("return x * 29")
    watch.update()
    watch.assert_quiet()
    assert gated.check().exit_code == 0


@pytest.mark.slow
def test_several_files_of_one_save_are_one_change(gated: Workspace, start: Start) -> None:
    for name in (HEIR, OTHER):
        gated.config(PATCH, name, preamble(f"{name[:4]}.py"))
    watch = start(gated)
    for name, target in ((CONFIG, "patched_modeling_toy_gpu.py"), (HEIR, "heir.py"), (OTHER, "othe.py")):
        gated.config(TRIPLED, name, preamble(target))
    assert watch.update().splitlines()[-1].startswith("3 configs: 3 fixed.")
    watch.assert_quiet()


def test_upstream_is_watched(gated: Workspace, start: Start) -> None:
    watch = start(gated)
    gated.upstream(UPSTREAM_TEXT.replace("return -x", "return +x"))
    assert "upstream moved: acme 1.0; rotate changed" in watch.update()
    assert "return +x" in generated(gated).read_text()


@pytest.mark.parametrize("suffix", [".py", ".diff"])
@pytest.mark.mostly_slow(1)
def test_a_generated_file_that_is_edited_is_made_again(gated: Workspace, start: Start, suffix: str) -> None:
    path = generated(gated, suffix)
    before = path.read_text()
    watch = start(gated)
    path.write_text(before.replace("return x", "return y"))
    said = watch.update()
    assert "edited by hand" in said
    assert "return y" in said
    assert f"         This file is generated: edit proj/models/{CONFIG}.\n" in said
    assert path.read_text() == before
    path.unlink()
    assert "missing" in watch.update()
    assert path.read_text() == before
    watch.assert_quiet()


def test_errors_are_shown_until_they_are_gone(gated: Workspace, start: Start) -> None:
    before = generated(gated).read_text()
    gated.config(PATCH, OTHER, preamble("other.py"))
    watch = start(gated)
    gated.config(TRIPLED + PROBLEM)
    assert "'Nothing'" in watch.update()
    assert generated(gated).read_text() == before
    gated.config(TRIPLED, OTHER, preamble("other.py"))
    said = watch.update()
    assert "Nothing" not in said
    assert said.splitlines()[-1].startswith("1 config: 1 fixed.")
    gated.config(TRIPLED)
    assert f"fixed    {LABEL}  config changed: Norm.forward changed  its errors are fixed\n" in watch.update()
    assert "return x * 3" in generated(gated).read_text()


@pytest.mark.slow
def test_what_a_config_lacks_may_come_later(gated: Workspace, start: Start) -> None:
    gated.config(f"from proj.models.toy.helpers import FACTOR\n{PATCH}")
    watch = start(gated)
    assert "error    " in watch.started
    gated.write("proj/models/toy/helpers.py", "FACTOR = 1\n")
    assert "its errors are fixed" in watch.update()


@pytest.mark.slow
def test_a_config_that_reads_other_files_is_made_again_for_any_source(gated: Workspace, start: Start) -> None:
    table = gated.write("proj/models/toy/table.py", "FACTOR = 1\n")
    read = f"config.add_post_import_block(open({str(table)!r}).read())\n"
    gated.config(PATCH + read)
    gated.config(PATCH, OTHER, preamble("other.py"))
    watch = start(gated)
    table.write_text("FACTOR = 2\n")
    assert "-FACTOR = 1\n+FACTOR = 2\n" in watch.update()
    gated.config(TRIPLED, OTHER, preamble("other.py"))
    assert watch.update().splitlines()[-1].startswith("1 config: 1 fixed.")
    watch.assert_quiet()


def test_configs_come_and_go(gated: Workspace, start: Start) -> None:
    watch = start(gated)
    path = gated.config(PATCH, OTHER, preamble("other.py"))
    assert "fixed    proj.models.other.other_gpu_patch_gen_config  missing" in watch.update()
    gated.config(TRIPLED, OTHER, preamble("other.py"))
    assert "+        return x * 3" in watch.update()
    path.unlink()
    said = watch.update()
    assert "gone     proj.models.other.other_gpu_patch_gen_config\n" in said
    assert "orphan   proj/models/other/generated/other.py: no config makes it now\n" in said
    assert (gated.models / "other/generated/other.py").is_file()
    gated.config(PATCH, HEIR, preamble("heir.py"))
    assert "orphan   " not in watch.update()  # it is told once


@pytest.mark.slow
def test_a_folder_that_is_made_again_is_watched_again(gated: Workspace, start: Start) -> None:
    watch = start(gated)
    kept = gated.root / "kept"
    shutil.copytree(gated.models / "toy", kept)
    shutil.rmtree(gated.models / "toy")
    watch.until("gone     ")
    shutil.copytree(kept, gated.models / "toy")
    watch.until("1 config: 1 clean.")
    gated.config(TRIPLED)
    assert "+        return x * 3" in watch.until("1 config: 1 fixed.")


@pytest.mark.slow
def test_two_configs_that_come_to_write_one_file_write_nothing(gated: Workspace, start: Start) -> None:
    gated.config(PATCH, "toy/other_gpu_patch_gen_config.py", preamble("other.py"))
    watch = start(gated)
    before = generated(gated).read_text()
    gated.config(TRIPLED, "toy/other_gpu_patch_gen_config.py")
    said = watch.update()
    assert "orphan   proj/models/toy/generated/other.py" in said
    assert said.splitlines()[-1].startswith("2 configs: 2 errors, 2 orphaned files.")
    assert generated(gated).read_text() == before


@pytest.mark.parametrize("name", ["pyproject.toml", "ruff.toml", "proj/models/toy/ruff.toml"])
@pytest.mark.mostly_slow(1)
def test_ruff_settings_are_watched(gated: Workspace, start: Start, name: str) -> None:
    watch = start(gated)
    path = gated.root / name
    table = "tool.ruff.format" if name == "pyproject.toml" else "format"
    with path.open("a") as file:
        file.write(f'\n[{table}]\nindent-style = "tab"\n')
    assert "generator changed: ruff's settings" in watch.update()
    assert "\n\tdef forward" in generated(gated).read_text()


def test_the_projects_settings_are_read_again(gated: Workspace, start: Start) -> None:
    path = gated.root / "pyproject.toml"
    settings = path.read_text()
    before = generated(gated).read_text()
    watch = start(gated)
    path.write_text(settings.replace("search_root", "search_rot"))
    watch.until("has no key 'search_rot'")
    gated.config(TRIPLED)
    watch.until("has no key 'search_rot'")
    assert generated(gated).read_text() == before
    path.write_text(settings)
    assert "+        return x * 3" in watch.update()
    path.write_text(settings.replace("proj/models", "proj/models/other").replace("proj.models", "proj.models.other"))
    gated.config(PATCH, OTHER, preamble("other.py"))
    assert "proj.models.other.other_gpu_patch_gen_config" in watch.until("1 config: 1 fixed.")


def test_only_the_named_configs_are_watched(gated: Workspace, start: Start) -> None:
    gated.config(PATCH, OTHER, preamble("other.py"))
    watch = start(gated, LABEL)
    gated.config(TRIPLED, OTHER, preamble("other.py"))
    watch.assert_quiet()
    gated.config(TRIPLED)
    assert watch.update().splitlines()[-1].startswith("1 config: 1 fixed.")
    assert not (gated.models / "other/generated").exists()


@pytest.mark.slow
def test_it_keeps_no_results_when_told_so(gated: Workspace, start: Start) -> None:
    watch = start(gated, "--no-cache")
    gated.config(TRIPLED)
    assert "1 config: 1 fixed." in watch.update()
    assert not (gated.root / ".patchgen_cache").exists()


@pytest.mark.slow
def test_what_it_keeps_is_what_a_check_finds(gated: Workspace, start: Start) -> None:
    watch = start(gated)
    gated.config(TRIPLED)
    watch.update()
    watch.assert_quiet()
    assert watch.stop() == 0
    assert Cache(gated.project).info().results == 2
    assert gated.patchgen("--check").stdout == "1 config: 1 clean.\n"
    generated(gated).write_text(generated(gated).read_text() + "\n")
    assert gated.patchgen("--check").returncode == 1


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_an_interrupt_ends_it_well(gated: Workspace, start: Start) -> None:
    watch = start(gated)
    assert watch.stop() == 0
    assert watch.until("no longer").splitlines()[-1] == "no longer watching"
    assert watch.lines.get() == END


def test_without_watchfiles_the_extra_is_named(gated: Workspace) -> None:
    (gated.site / "watchfiles.py").write_text("raise ImportError('it is not here')\n")
    done = gated.patchgen("--watch")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "error: --watch needs watchfiles: it is not here\n"
        "  Install the extra 'watch': pip install 'pytest-patchgen[watch]'.\n"
    )


@pytest.mark.parametrize(
    "option", ["--check", "--check --fix", "--list", "--dry-run", "--diff", "--json", "--select=E"]
)
def test_what_makes_no_sense_beside_it_is_refused(gated: Workspace, option: str) -> None:
    done = gated.patchgen("--watch", *option.split())
    assert done.returncode == 2
    message = done.stdout if option == "--json" else done.stderr
    assert "--select needs check" in message if option == "--select=E" else "does not go with" in message


def test_a_project_without_configs_is_an_error(work: Workspace) -> None:
    done = work.patchgen("--watch")
    assert done.returncode == 2
    assert "there is no patch config" in done.stderr
