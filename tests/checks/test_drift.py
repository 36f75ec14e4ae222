"""The drift gate: what differs, why, and how it is mended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from patchgen_core.api.codegen import run_codegen
from patchgen_core.build.results import ConfigResult
from patchgen_core.build.ruff_setup import ruff_version
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in import compare as drift
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.errors import PatchgenError
from patchgen_core.files import write_files
from patchgen_core.project.project import Project
from patchgen_core.syntax.diffs import apply_diff, reverse_diff
from tests.conftest import PATCH, TABLE, Workspace, generated
from tests.conftest import UPSTREAM_TEXT as UPSTREAM

WITHOUT_DIFFS = TABLE.replace("diffs = true\n", "")


def only(work: Workspace) -> ConfigResult:
    (result,) = work.check().results
    return result


def causes(work: Workspace) -> list[str]:
    return [str(cause) for cause in only(work).causes]


def test_fresh_generation_is_clean(gated: Workspace) -> None:
    report = gated.check()
    assert [result.status for result in report.results] == ["clean"]
    assert report.exit_code == 0


def test_edit_by_hand_is_named_by_its_method(gated: Workspace) -> None:
    path = generated(gated)
    path.write_text(path.read_text().replace("return x + 1", "return x + 2"))
    assert causes(gated) == ["edited by hand: Head.forward changed"]
    assert "-        return x + 2\n+        return x + 1\n" in only(gated).files[0].diff


def test_edit_of_the_header_is_an_edit_by_hand(gated: Workspace) -> None:
    path = generated(gated)
    path.write_text(path.read_text().replace("#  Fingerprint: ", "#  Finger: "))
    assert causes(gated) == ["edited by hand: its header cannot be read"]


def test_edit_of_the_diff_is_an_edit_by_hand(gated: Workspace) -> None:
    path = generated(gated, ".diff")
    path.write_text(path.read_text() + "\n")
    assert causes(gated) == ["edited by hand: patched_modeling_toy_gpu.diff"]


def test_changed_line_endings_are_said(gated: Workspace) -> None:
    path = generated(gated)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert causes(gated) == ["edited by hand: its line endings were changed to CRLF"]


def test_config_change_names_what_it_changes(gated: Workspace) -> None:
    gated.config(PATCH.replace("x * 2", "x * 3"))
    assert causes(gated) == ["config changed: Norm.forward changed"]


def test_new_patch_is_a_config_change(gated: Workspace) -> None:
    gated.config(PATCH + "config.exclude_from_output('Head')\n")
    assert causes(gated) == ["config changed: Head removed"]


def test_comment_in_the_config_is_no_drift(gated: Workspace) -> None:
    gated.config("# a remark\n\n" + PATCH)
    assert only(gated).status == "clean"


def test_upstream_move_names_its_definitions(gated: Workspace) -> None:
    moved = UPSTREAM.replace("return -x", "return +x").replace("class Head", "class Tail") + "\n\ndef new(): ...\n"
    gated.upstream(moved, version="1.1")
    assert causes(gated) == ["upstream moved: acme 1.0 -> 1.1; rotate changed; Tail, new added; Head removed"]


def test_upstream_move_below_a_patch_shows_in_the_cause(gated: Workspace) -> None:
    """The patched method hides upstream's change from the generated file, not from the cause."""
    gated.upstream(UPSTREAM.replace("return x\n", "return x or 0\n"), version="1.1")
    (cause,) = only(gated).causes
    assert str(cause) == ("upstream moved: acme 1.0 -> 1.1; Norm.forward changed (this config patches Norm.forward)")
    assert cause.upstream_diff == (
        "--- Norm.forward (1.0)\n+++ Norm.forward (1.1)\n@@ -1,2 +1,2 @@\n"
        "     def forward(self, x):\n-        return x\n+        return x or 0\n"
    )


def test_hunks_name_what_their_first_change_is_in(gated: Workspace) -> None:
    path = generated(gated)
    text = path.read_text().replace("return x * 2", "return x * 3").replace("return -x", "return x")
    path.write_text(text.replace("def forward", "def backward", 1) + "\n\nx = 1\n")
    diff = only(gated).files[0].telling_diff
    owners = [line.rpartition("@@")[2] for line in diff.splitlines() if line.startswith("@@ ")]
    assert owners == [" Norm.forward", " rotate"]


def test_new_version_with_the_same_text(gated: Workspace) -> None:
    gated.upstream(UPSTREAM, version="1.1")
    assert causes(gated) == ["upstream moved: acme 1.0 -> 1.1, with the same text"]


def test_upstream_comment_is_outside_of_definitions(gated: Workspace) -> None:
    gated.upstream("# a comment\n" + UPSTREAM)
    assert causes(gated) == ["upstream moved: acme 1.0; outside of its classes and functions"]


def test_upstream_move_without_the_old_diff(gated: Workspace) -> None:
    generated(gated, ".diff").unlink()
    gated.upstream(UPSTREAM.replace("return -x", "return +x"))
    moved, missing = causes(gated)
    assert moved == "upstream moved: acme 1.0; without the .diff that belongs to the file, what changed is unknown"
    assert missing == "missing: patched_modeling_toy_gpu.diff does not exist"


def test_two_causes_are_both_named(gated: Workspace) -> None:
    gated.upstream(UPSTREAM.replace("return -x", "return +x"))
    gated.config(PATCH.replace("x * 2", "x * 3"))
    assert causes(gated) == ["upstream moved: acme 1.0; rotate changed", "config changed: Norm.forward changed"]


def test_edit_and_config_change_are_told_apart(gated: Workspace) -> None:
    path = generated(gated)
    path.write_text(path.read_text().replace("return x + 1", "return x + 2"))
    gated.config(PATCH.replace("x * 2", "x * 3"))
    assert causes(gated) == ["config changed: Norm.forward changed", "edited by hand: Head.forward changed"]


def test_edit_by_hand_is_seen_beside_an_upstream_move(gated: Workspace) -> None:
    path = generated(gated)
    path.write_text(path.read_text().replace("return x + 1", "return x + 2"))
    gated.upstream(UPSTREAM, version="1.1")
    assert [cause.kind for cause in only(gated).causes] == ["upstream moved", "edited by hand"]


def test_other_format_is_a_generator_change(gated: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchgen_core.codegen.header.FORMAT", 2)
    monkeypatch.setattr("patchgen_core.checks.checked_in.causes.FORMAT", 2)
    assert causes(gated) == ["generator changed: its output format went from 1 to 2"]


def test_other_ruff_settings_are_a_generator_change(gated: Workspace) -> None:
    gated.write(
        "pyproject.toml",
        """
        [tool.patchgen]
        search_root = "proj/models"
        package_prefix = "proj.models"
        [tool.ruff.format]
        indent-style = "tab"
        """,
    )
    cause = "generator changed: ruff's settings have changed, or its version, now "
    assert causes(gated) == [f"{cause}{ruff_version(gated.root)}"]


def test_a_diff_that_nobody_asked_for_is_not_missed(work: Workspace) -> None:
    work.write("pyproject.toml", WITHOUT_DIFFS)
    work.upstream(UPSTREAM)
    run_codegen(str(work.config(PATCH)), project=work.project)
    assert not generated(work, ".diff").exists()
    assert only(work).status == "clean"
    generated(work).write_text("")
    drift.fix(work.check())
    assert (only(work).status, generated(work, ".diff").exists()) == ("clean", False)


def test_a_diff_that_stands_there_is_compared_and_rewritten(gated: Workspace) -> None:
    gated.write("pyproject.toml", WITHOUT_DIFFS)
    gated.config(PATCH.replace("x * 2", "x * 3"))
    assert [file.path.suffix for file in only(gated).files] == [".py", ".diff"]
    drift.fix(gated.check())
    assert "x * 3" in generated(gated, ".diff").read_text()
    generated(gated, ".diff").write_text("")
    assert causes(gated) == ["edited by hand: patched_modeling_toy_gpu.diff"]


def test_missing_module_and_diff(gated: Workspace) -> None:
    generated(gated).unlink()
    assert causes(gated) == ["missing: patched_modeling_toy_gpu.py does not exist"]


def test_orphans_are_found_and_pruned(gated: Workspace) -> None:
    gated.config(PATCH.replace("x * 2", "x * 3").replace("Norm", "Head"))
    config = gated.models / "toy/toy_gpu_patch_gen_config.py"
    config.write_text(config.read_text().replace("patched_modeling_toy_gpu.py", "patched_new.py"))
    (gated.models / "toy/generated/__init__.py").write_text("")
    report = drift.fix(gated.check())
    assert report.orphans == (generated(gated, ".diff"), generated(gated))
    assert report.exit_code == 1
    assert drift.fix(report, prune=True).removed == report.orphans
    assert gated.check().exit_code == 0


def test_broken_config_makes_no_orphans(gated: Workspace) -> None:
    gated.config("1 / 0\n")
    report = gated.check()
    assert [result.status for result in report.results] == ["error"]
    assert report.orphans == ()
    assert report.exit_code == 2


def test_project_without_configs_is_an_error(work: Workspace) -> None:
    with pytest.raises(PatchgenError, match="there is no patch config below"):
        work.check()


def test_fix_writes_what_drifted_and_touches_nothing_else(gated: Workspace) -> None:
    other = gated.config("", "other/other_patch_gen_config.py")
    other.write_text(other.read_text().replace("toy_gpu.py", "other.py"))
    drift.fix(gated.check())
    clean = gated.models / "other/generated/patched_modeling_other.py"
    before = clean.stat().st_mtime_ns
    path = generated(gated)
    path.write_text("# edited\n")
    report = drift.fix(gated.check())
    assert [result.status for result in report.results] == ["clean", "fixed"]
    assert gated.check().exit_code == 0
    assert clean.stat().st_mtime_ns == before


def test_fix_leaves_a_broken_config_alone(gated: Workspace) -> None:
    path = generated(gated)
    path.write_text("# edited\n")
    gated.config("config.exclude_from_output('Hed')\n")
    assert drift.fix(gated.check()).exit_code == 2
    assert path.read_text() == "# edited\n"


def test_failed_write_leaves_every_file(tmp_path: Path) -> None:
    first = tmp_path / "first.py"
    first.write_text("old\n")
    (tmp_path / "file").write_text("")
    with pytest.raises(PatchgenError, match="cannot be written"):
        write_files([(first, "new\n"), (tmp_path / "file" / "second.py", "new\n")])
    assert first.read_text() == "old\n"
    assert sorted(os.listdir(tmp_path)) == ["file", "first.py"]


def test_writing_keeps_permissions_and_links(tmp_path: Path) -> None:
    target = tmp_path / "target.py"
    target.write_text("old\n")
    target.chmod(0o755)
    link = tmp_path / "link.py"
    link.symlink_to(target)
    write_files([(link, "new\n")])
    assert link.is_symlink()
    assert target.read_text() == "new\n"
    assert target.stat().st_mode & 0o777 == 0o755


def test_reversing_the_diff_gives_upstream_back(gated: Workspace) -> None:
    artifact = gated.outcome().artifact
    assert artifact is not None
    assert reverse_diff(artifact.text, artifact.diff) == artifact.base
    assert apply_diff(artifact.base, artifact.diff) == artifact.text
    assert reverse_diff(artifact.text.replace("class Norm", "class Form"), artifact.diff) is None


def test_output_folder_on_the_command_line_changes_no_byte(gated: Workspace, tmp_path: Path) -> None:
    config = gated.models / "toy/toy_gpu_patch_gen_config.py"
    report = drift.fix(check(Selection(gated.project, [config], output=tmp_path / "out"), artifacts=True))
    assert report.exit_code == 0
    (artifact,) = [result.outcome.artifact for result in report.results]
    assert artifact is not None
    assert (tmp_path / "out" / generated(gated).name).read_bytes() == generated(gated).read_bytes()
    assert artifact.diff == generated(gated, ".diff").read_text()


def test_same_bytes_in_any_folder(work: Workspace, tmp_path: Path) -> None:
    work.upstream(UPSTREAM)
    work.config(PATCH)
    first = work.text()
    moved = tmp_path / "elsewhere"
    os.rename(work.root, moved)
    work.root, work.models = moved, moved / "proj" / "models"
    assert work.text() == first


def test_project_can_be_given_as_values(gated: Workspace) -> None:
    project = Project(search_root=gated.models, package_prefix="proj.models", root=gated.root)
    assert check(Selection(project)).exit_code == 0
