"""Carrying replacements over where several configs share them, where nothing is decided, and beside git."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from patchgen_core.errors import PatchgenError
from patchgen_core.upgrade.package_configs import select_configs
from patchgen_core.upgrade.upgrading import upgrade
from patchgen_core.upgrade.writing.applying import apply
from tests.conftest import CONFIG, PREAMBLE, UPSTREAM, generated
from tests.upgrade.applied import HEIR, HEIR_PREAMBLE, NEW_NORM, NEW_ROTATE, NORM, ROTATE, changed_lines, file
from tests.upgrade.upgraded import Upgrading, reasons


class TestConfigs:
    """What several configs need, and what they generate."""

    def test_one_text_for_two_configs_is_written_once(self, norm: Upgrading) -> None:
        heir = norm.work.config("", HEIR, preamble=HEIR_PREAMBLE)
        norm.generate()
        applied = norm.apply({"Norm.forward": NEW_NORM})
        assert len(applied.merged) == 1
        assert applied.written == (file(norm),)
        assert heir.parent / "generated" / "heir.py" in applied.generated
        assert norm.drift().exit_code == 0

    def test_two_texts_for_one_definition_are_left(self, norm: Upgrading) -> None:
        norm.work.config("", HEIR, preamble=HEIR_PREAMBLE)
        before = file(norm).read_text()
        other = NEW_NORM.replace("gain", "limit")
        applied = norm.apply({"Norm.forward": NEW_NORM, f"{Path(HEIR).name}:Norm.forward": other})
        expected = "proj.models.heir.heir_gpu_patch_gen_config and proj.models.toy.toy_gpu_patch_gen_config need "
        assert reasons(applied) == [f"{expected}different texts of it; give them replacements of their own"] * 2
        assert file(norm).read_text() == before

    def test_a_definition_that_another_patch_needs_as_it_is_is_left(self, norm: Upgrading) -> None:
        norm.work.config("", HEIR, preamble=HEIR_PREAMBLE)
        before = file(norm).read_text()
        applied = norm.apply({f"{Path(CONFIG).name}:Norm.forward": NEW_NORM})
        assert reasons(applied) == [
            "the patch of Norm.forward in proj.models.heir.heir_gpu_patch_gen_config needs it as it is; "
            "give Norm.forward in proj.models.toy.toy_gpu_patch_gen_config a replacement of its own"
        ]
        assert file(norm).read_text() == before

    def test_a_config_beside_the_upgrade_that_uses_it_is_told(self, norm: Upgrading) -> None:
        norm.work.config("", HEIR, preamble=HEIR_PREAMBLE)
        norm.generate()
        applied = norm.apply({"Norm.forward": NEW_NORM}, CONFIG)
        assert len(applied.merged) == 1
        assert [problem.message for problem in applied.problems] == [
            "proj.models.heir.heir_gpu_patch_gen_config uses what was written, and is not part of this upgrade: "
            "its files were not generated"
        ]

    def test_what_does_not_generate_is_left_and_the_rest_written(self, norm: Upgrading) -> None:
        path = norm.work.config(NORM + ROTATE)
        norm.generate()
        applied = norm.apply({"Norm.forward": NEW_NORM.replace("gain", "nowhere"), "rotate": NEW_ROTATE})
        reason = "proj.models.toy.toy_gpu_patch_gen_config does not generate with it: method_override Norm.forward: "
        assert [text.partition(" in patched")[0] for text in reasons(applied)] == [
            f"{reason}nothing defines 'nowhere'"
        ]
        assert [rebase.merged.text.strip() for rebase in applied.merged] == [NEW_ROTATE.strip()]
        assert "nowhere" not in path.read_text()
        assert "math.floor" in path.read_text()

    def test_what_is_left_keeps_the_text_that_it_is_to_be_carried_over_from(self, norm: Upgrading) -> None:
        norm.work.config(NORM + ROTATE)
        norm.generate()
        before = generated(norm.work).read_text()
        applied = norm.apply({"Norm.forward": NEW_NORM.replace("gain", "nowhere"), "rotate": NEW_ROTATE})
        assert generated(norm.work).read_text() == before
        assert not applied.generated
        assert [problem.message for problem in applied.problems] == [
            "proj.models.toy.toy_gpu_patch_gen_config is not generated: 1 of its replacements is left"
        ]

    def test_what_does_not_load_is_left(self, norm: Upgrading) -> None:
        before = file(norm).read_text()
        text = NEW_NORM.replace("(self, x)", "(self, x, y=nowhere)")
        applied = norm.apply({"Norm.forward": text})
        assert "NameError: name 'nowhere' is not defined" in reasons(applied)[0]
        assert not applied.merged
        assert file(norm).read_text() == before

    def test_a_config_that_cannot_generate_anyway_is_written_and_told(self, norm: Upgrading) -> None:
        module = norm.folder.joinpath(*UPSTREAM.split(".")).with_suffix(".py")
        path = norm.work.config(NORM + ROTATE)
        norm.generate()
        before = generated(norm.work).read_text()
        module.write_text(module.read_text().replace("def rotate", "def turn"))
        applied = norm.apply({"Norm.forward": NEW_NORM})
        assert "gain" in path.read_text()
        assert [problem.message for problem in applied.problems] == [f"upstream {UPSTREAM} has no function 'rotate'"]
        assert not applied.generated
        assert generated(norm.work).read_text() == before

    def test_a_target_that_has_another_name_is_renamed(self, norm: Upgrading) -> None:
        module = norm.folder.joinpath(*UPSTREAM.split(".")).with_suffix(".py")
        module.write_text(module.read_text().replace("class Norm", "class RMSNorm"))
        applied = norm.apply({"Norm.forward": NEW_NORM}, names={"Norm.forward": "RMSNorm.forward"})
        assert not applied.problems
        line = '@config.override_method("RMSNorm.forward", description="doubled")  # as agreed\n'
        assert line in file(norm).read_text()
        assert norm.drift().exit_code == 0

    def test_a_pinned_config_is_pinned_to_the_release(self, upgrading: Upgrading) -> None:
        pinned = PREAMBLE.replace('gpu.py")', "gpu.py\",\n    transformers_version='1.0')  # with care")
        path = upgrading.work.config(NORM, preamble=pinned)
        upgrading.generate()
        applied = upgrading.apply({"Norm.forward": NEW_NORM})
        assert not applied.problems
        assert "    transformers_version='2.0')  # with care\n" in path.read_text()
        assert upgrading.drift().exit_code == 0

    def test_a_pinned_config_that_does_not_generate_stays_pinned(self, upgrading: Upgrading) -> None:
        pinned = PREAMBLE.replace('gpu.py")', 'gpu.py", transformers_version="1.0")')
        path = upgrading.work.config(ROTATE, preamble=pinned)
        module = upgrading.folder.joinpath(*UPSTREAM.split(".")).with_suffix(".py")
        module.write_text(module.read_text().replace("def rotate", "def turn"))
        before = path.read_text()
        applied = upgrading.apply({})
        assert [problem.message for problem in applied.problems] == [f"upstream {UPSTREAM} has no function 'rotate'"]
        assert path.read_text() == before

    def test_what_an_upgrade_finds_is_what_is_applied(self, norm: Upgrading) -> None:
        selection = select_configs(norm.work.project, package="acme")
        report = upgrade(selection, norm.release, norm.releases)
        applied = apply(norm.work.project, report, norm.release, allow_dirty=True)
        assert len(applied.merged) == 1
        assert "limit(scale(x))" in file(norm).read_text()
        assert norm.drift().exit_code == 0


class TestConflicts:
    """What is not decided."""

    MARKED = """
def norm_forward(self, x):
    # --- doubled ---
<<<<<<< ours
    x = scale(x)
=======
    x = limit(scale(x))
>>>>>>> theirs

    return (x + self.eps)   *   2
"""

    def test_they_are_left(self, norm: Upgrading) -> None:
        before = file(norm).read_text()
        applied = norm.apply({"Norm.forward": self.MARKED})
        assert reasons(applied) == ["line 1 of it: both sides changed it"]
        assert file(norm).read_text() == before

    def test_they_are_marked_on_request(self, norm: Upgrading) -> None:
        path = norm.work.config(NORM + ROTATE)
        norm.generate()
        before, module = path.read_text(), generated(norm.work).read_text()
        applied = norm.apply({"Norm.forward": self.MARKED, "rotate": NEW_ROTATE}, conflicts=True)
        assert changed_lines(before, path.read_text()) == [
            "+",
            "+import math",
            "+<<<<<<< ours",
            "+=======",
            "+    x = limit(scale(x))",
            "+>>>>>>> theirs",
            "-    return x[size // 2 :]",
            "+    return x[math.floor(size / 2) :]",
        ]
        assert (len(applied.merged), len(applied.marked)) == (1, 1)
        assert [str(problem).partition(": ")[2] for problem in applied.problems] == [
            "'norm_forward' has 1 conflict marked: its file does not load\n"
            "  Resolve them, and generate the configs that use it."
        ]
        place = applied.problems[0].location
        assert place
        assert "norm_forward" in path.read_text().splitlines()[place.line - 1]
        assert not applied.generated
        assert generated(norm.work).read_text() == module

    def test_what_is_wrong_with_a_text_that_has_markers_now_is_not_told(self, norm: Upgrading) -> None:
        norm.work.config(NORM.replace("return", "print(unknown)\n    return"))
        applied = norm.apply({"Norm.forward": self.MARKED}, conflicts=True)
        assert ["conflict" in str(problem) for problem in applied.problems] == [True]

    def test_markers_of_an_indented_replacement_stand_at_the_margin(self, upgrading: Upgrading) -> None:
        path = upgrading.work.config("")
        path.write_text(f"{PREAMBLE}\nif True:\n{textwrap.indent(NORM, '    ')}")
        upgrading.apply({"Norm.forward": self.MARKED}, conflicts=True)
        marked = "\n<<<<<<< ours\n        x = scale(x)\n=======\n        x = limit(scale(x))\n>>>>>>> theirs\n"
        assert marked in path.read_text()


class TestGit:
    """Nothing is written that git could not take back, unless that is wanted."""

    def refused(self, upgrading: Upgrading) -> str:
        report = upgrading.report({"Norm.forward": NEW_NORM})
        before = file(upgrading).read_text()
        with pytest.raises(PatchgenError) as error:
            apply(upgrading.work.project, report, upgrading.release)
        assert file(upgrading).read_text() == before
        return str(error.value).replace(f"{upgrading.work.root}{os.sep}", "")

    def test_a_clean_tree_is_written_to(self, norm: Upgrading) -> None:
        norm.commit()
        report = norm.report({"Norm.forward": NEW_NORM})
        assert apply(norm.work.project, report, norm.release).merged
        changed = norm.git("status", "--porcelain").split()[1::2]
        generated_files = [f"proj/models/toy/generated/patched_modeling_toy_gpu{end}" for end in (".diff", ".py")]
        assert changed == [*generated_files, f"proj/models/{CONFIG}"]

    def test_changes_are_named(self, norm: Upgrading) -> None:
        norm.work.write(".gitignore", "ignored\n")
        norm.work.write("older.txt", "moved\n" * 9)
        norm.work.write("gone.txt", "")
        norm.commit()
        norm.work.write("pyproject.toml", (norm.work.root / "pyproject.toml").read_text() + "\n")
        norm.work.write("ignored", "")
        norm.work.write("proj/new/untracked.py", "")
        norm.work.write("upgrade.html", "")
        norm.git("mv", "older.txt", "new name.txt")
        (norm.work.root / "gone.txt").unlink()
        said = self.refused(norm).splitlines()
        files = ["gone.txt", "new name.txt", "proj/new/untracked.py", "pyproject.toml"]
        assert [line for line in said if not line.startswith(" ")] == [
            f"{name}: this file has uncommitted changes" for name in files
        ]
        assert "--allow-dirty" in said[-1]

    def test_changes_outside_the_project_do_not_count(self, norm: Upgrading) -> None:
        norm.commit()
        (norm.work.root / ".git").rename(norm.work.root.parent / ".git")
        norm.git("-C", str(norm.work.root.parent), "add", "work")
        norm.git("commit", "-q", "-m", "moved")
        (norm.work.root.parent / "beside.txt").write_text("")
        assert apply(norm.work.project, norm.report({"Norm.forward": NEW_NORM}), norm.release).merged

    def test_without_a_repository_it_is_refused(self, norm: Upgrading, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(norm.work.root.parent))
        said = self.refused(norm)
        assert "git cannot say which files are committed: not a git repository" in said
        assert "--allow-dirty" in said

    def test_without_git_it_is_refused(self, norm: Upgrading, monkeypatch: pytest.MonkeyPatch) -> None:
        norm.commit()
        report = norm.report({"Norm.forward": NEW_NORM})
        monkeypatch.setenv("PATH", "")
        with pytest.raises(PatchgenError, match="git cannot be run"):
            apply(norm.work.project, report, norm.release)

    def test_a_work_tree_of_its_own(self, norm: Upgrading) -> None:
        norm.commit()
        tree = norm.work.root.parent / "tree"
        norm.git("worktree", "add", "-q", str(tree))
        norm.work.root, norm.work.models = tree, tree / "proj" / "models"
        assert apply(norm.work.project, norm.report({"Norm.forward": NEW_NORM}), norm.release).merged
        (tree / "new.py").write_text("")
        assert "new.py: this file has uncommitted changes" in self.refused(norm)
