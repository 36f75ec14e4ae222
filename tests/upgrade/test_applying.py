"""Replacements that were carried over are written into the configs, and nothing else changes."""

from __future__ import annotations

import difflib
import os
import textwrap
from pathlib import Path

import pytest

from patchgen_core.errors import PatchgenError
from patchgen_core.upgrade.package_configs import select_configs
from patchgen_core.upgrade.upgrading import upgrade
from patchgen_core.upgrade.writing.applying import apply
from tests.conftest import CONFIG, PREAMBLE, UPSTREAM, Workspace, generated
from tests.upgrade.upgraded import NEW_TEXT, OLD_TEXT, Upgrading, reasons

NORM = """
from acme.models.toy.parts import scale  # noqa: F401


# Norm in double precision
@config.override_method("Norm.forward", description="doubled")  # as agreed
def norm_forward(self, x):
    # --- doubled ---
    x = scale(x)

    return (x + self.eps)   *   2
"""
NEW_NORM = """
def norm_forward(self, x):
    # --- doubled ---
    x = limit(scale(x))
    x = gain(x)

    return (x + self.eps)   *   2
"""
ROTATE = """
@config.replace_function("rotate")
def my_rotate(x, size):
    return x[size // 2 :]
"""
NEW_ROTATE = """
def my_rotate(x, size):
    return x[math.floor(size / 2) :]
"""
HEIR = "heir/heir_gpu_patch_gen_config.py"
HEIR_PREAMBLE = f"""
from patchgen import PatchConfig

from proj.models.toy.toy_gpu_patch_gen_config import norm_forward

config = PatchConfig("{UPSTREAM}", "heir.py")
config.override_method("Norm.forward", replacement=norm_forward)
"""


@pytest.fixture
def upgrading(work: Workspace) -> Upgrading:
    """A project without a config."""
    return Upgrading(work)


@pytest.fixture
def norm(upgrading: Upgrading) -> Upgrading:
    """A project with one config, ``NORM``."""
    upgrading.work.config(NORM)
    upgrading.generate()
    return upgrading


def changed_lines(before: str, after: str) -> list[str]:
    """The lines that were taken out and put in."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def file(upgrading: Upgrading, path: str = CONFIG) -> Path:
    """A file of the project's models."""
    return upgrading.work.models / path


class TestTexts:
    """What changes in a file."""

    def test_only_the_lines_that_differ(self, norm: Upgrading) -> None:
        before = file(norm).read_text()
        applied = norm.apply({"Norm.forward": NEW_NORM})
        assert changed_lines(before, file(norm).read_text()) == [
            "-from acme.models.toy.parts import scale  # noqa: F401",
            "+from acme.models.toy.modeling_toy import limit",
            "+from acme.models.toy.parts import gain, scale  # noqa: F401",
            "-    x = scale(x)",
            "+    x = limit(scale(x))",
            "+    x = gain(x)",
        ]
        assert applied.written == (file(norm),)
        assert [rebase.location.line for rebase in applied.merged] == [11]
        assert not applied.left
        assert not applied.problems

    def test_white_space_stays(self, upgrading: Upgrading) -> None:
        path = upgrading.work.config(NORM)
        path.write_text(path.read_text().replace("scale(x)\n\n", "scale(x)\n   \n"))
        assert not upgrading.apply({"Norm.forward": NEW_NORM}).left
        assert "    x = gain(x)\n   \n    return" in path.read_text()

    def test_the_generated_files_are_those_of_the_release(self, norm: Upgrading) -> None:
        module, diff = generated(norm.work), generated(norm.work, ".diff")
        assert norm.apply({"Norm.forward": NEW_NORM}).generated == (module, diff)
        assert "Based on: acme==2.0" in module.read_text()
        assert "return (x + self.eps) * 2" in module.read_text()
        assert norm.drift().exit_code == 0

    def test_the_diff_that_the_gate_asks_for_is_made_where_there_was_none(self, norm: Upgrading) -> None:
        generated(norm.work, ".diff").unlink()
        norm.apply({"Norm.forward": NEW_NORM})
        assert generated(norm.work, ".diff").is_file()

    def test_newlines_and_encoding_stay(self, upgrading: Upgrading) -> None:
        path = file(upgrading)
        path.parent.mkdir(parents=True)
        text = f"# -*- coding: latin-1 -*-\n# caf\xe9{PREAMBLE}{NORM}".rstrip("\n")
        path.write_bytes(text.replace("\n", "\r\n").encode("latin-1"))
        upgrading.generate()
        assert not upgrading.apply({"Norm.forward": NEW_NORM.replace("*   2", "*   3")}).left
        data = path.read_bytes()
        assert data.count(b"\n") == data.count(b"\r\n") == text.count("\n") + 2
        assert b"caf\xe9\r\n" in data
        assert b"\r\n    x = limit(scale(x))\r\n    x = gain(x)\r\n\r\n" in data
        assert data.endswith(b"*   3")

    def test_what_the_encoding_lacks_is_left(self, upgrading: Upgrading) -> None:
        path = upgrading.work.config(NORM, preamble=f"# coding: ascii{PREAMBLE}")
        before = path.read_bytes()
        applied = upgrading.apply({"Norm.forward": NEW_NORM.replace("doubled", "\u00d72")})
        assert reasons(applied) == ["its encoding, ascii, lacks '\u00d7'"]
        assert path.read_bytes() == before

    def test_a_byte_order_mark_stays(self, upgrading: Upgrading) -> None:
        path = upgrading.work.config(NORM, preamble=f"\ufeff{PREAMBLE.strip()}")
        assert not upgrading.apply({"Norm.forward": NEW_NORM}).left
        assert path.read_text(encoding="utf-8").startswith("\ufefffrom patchgen")
        assert path.read_text(encoding="utf-8-sig").isascii()

    def test_a_replacement_inside_a_block_keeps_its_indentation(self, upgrading: Upgrading) -> None:
        text = '''
        import sys

        if sys.version_info:

            @config.override_method("Norm.forward")
            def norm_forward(self, x):
                """Scaled,
            and told."""
                print("""a
          b""")
                return x
        '''
        new = '''
def norm_forward(self, x):
    """Scaled,
    and told."""
    print("""a
  b""")
    print("""c
d""")
    return x
'''
        path = upgrading.work.config(text)
        upgrading.generate()
        before = path.read_text()
        assert not upgrading.apply({"Norm.forward": new}).left
        assert changed_lines(before, path.read_text()) == ['+        print("""c', '+d""")']
        assert upgrading.drift().exit_code == 0

    def test_own_decorators_change_and_those_that_declare_stay(self, upgrading: Upgrading) -> None:
        text = """
        from acme.models.toy.parts import cached


        @cached
        # the patch
        @config.replace_function("rotate")
        @cached(
            2,
        )
        def my_rotate(x, size):
            return -x
        """
        path = upgrading.work.config(text)
        before = path.read_text()
        assert not upgrading.apply({"rotate": "@timed(3)\ndef my_rotate(x, size):\n    return -x"}).left
        assert changed_lines(before, path.read_text()) == [
            "-from acme.models.toy.parts import cached",
            "+from acme.models.toy.parts import timed",
            "-@cached",
            "-@cached(",
            "-    2,",
            "-)",
            "+@timed(3)",
        ]

    def test_a_class_and_a_function_of_one_file(self, upgrading: Upgrading) -> None:
        text = """
        @config.replace_class("Norm")
        class MyNorm:
            # kept

            def forward(self, x):
                return x
        """
        path = upgrading.work.config(text + ROTATE.replace("\n", "\n        "))
        new = "class MyNorm:\n    # kept\n\n    def forward(self, x, y):\n        return y\n"
        applied = upgrading.apply({"Norm": new, "rotate": NEW_ROTATE})
        assert len(applied.merged) == 2
        assert new in path.read_text()
        assert "\nimport math\n" in path.read_text()

    def test_what_was_edited_meanwhile_is_left(self, norm: Upgrading) -> None:
        report = norm.report({"Norm.forward": NEW_NORM})
        path = file(norm)
        path.write_text(path.read_text().replace("doubled ---", "twice ---"))
        before = path.read_text()
        applied = apply(norm.work.project, report, norm.release, allow_dirty=True)
        assert reasons(applied) == [f"line 11 of '{path}' holds another text now"]
        assert path.read_text() == before


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

    def test_the_class_of_a_dropped_decorator_is_renamed_with_the_target(self, work: Workspace) -> None:
        old = OLD_TEXT.replace("class Norm", "@timed\nclass Norm").replace("cached, scale", "cached, scale, timed")
        new = NEW_TEXT.replace("class Norm", "@timed\nclass RMSNorm")
        upgrading = Upgrading(work, old, new)
        path = work.config('config.drop_decorators("Norm", "timed")\n' + NORM)
        upgrading.generate()
        applied = upgrading.apply({"Norm.forward": NEW_NORM}, names={"Norm.forward": "RMSNorm.forward"})
        assert not applied.problems
        assert 'config.drop_decorators("RMSNorm", "timed")' in path.read_text()
        assert "\n@timed\n" not in generated(work).read_text()

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
        assert not applied.generated
        assert generated(norm.work).read_text() == module

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
            f"{name}: this file has changes that are not committed" for name in files
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
        assert "git cannot tell which files are committed: not a git repository" in said
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
        assert "new.py: this file has changes" in self.refused(norm)
