"""A conflict that was solved once: where it is proposed again, and where not."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen_core.errors import Location
from patchgen_core.project.project import Project
from patchgen_core.upgrade.deciding.choices import Question
from patchgen_core.upgrade.deciding.decisions import Decisions
from patchgen_core.upgrade.deciding.resolutions import Resolutions
from patchgen_core.upgrade.merging.merge import mark_conflicts, merge_definition
from patchgen_core.upgrade.results import ConfigVerdict, PatchVerdict, Rebase

BASE = """def forward(self, x):
    # upstream's comment
    y = Qwen3Norm.scale(self, x)
    return y
"""
OURS = BASE.replace("(self, x)\n", "(self, 2 * x)\n").replace("    # upstream's comment\n", "")
THEIRS = BASE.replace("(self, x)\n", "(self, x.float())\n")
SOLVED = "    y = Qwen3Norm.scale(self, 2 * x.float())"


def asked(base: str, ours: str, theirs: str, config: str = "one") -> Question:
    """The question of a merge with one conflict, as it is in a config."""
    merged = merge_definition(base, ours, theirs)
    assert len(merged.conflicts) == 1
    place = Location(f"{config}.py", 7)
    rebase = Rebase(place, ours, merged, "", mark_conflicts(ours, merged))
    patch = PatchVerdict("method_override", "Qwen3MLP.forward", "", place, "changed", "review", (), rebase=rebase)
    verdict = ConfigVerdict(config, f"{config}.py", 1, "acme", "1.0", "2.0", None, "review", (patch,))
    return Question(rebase, ((verdict, patch),))


def solve(question: Question, lines: str) -> str:
    """The question's text with some lines in place of its conflict."""
    before, _, rest = question.rebase.marked.partition("<<<<<<< ours\n")
    return before + lines + rest.partition(">>>>>>> theirs")[2]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, "proj", root=tmp_path)


def test_same_conflict_is_solved_the_same_with_other_layout_and_classes(project: Project) -> None:
    question = asked(BASE, OURS, THEIRS)
    text = solve(question, SOLVED)
    Resolutions(project).keep(question, text)
    again = Resolutions(project).propose(asked(BASE, OURS.replace("2 * x", "2*x"), THEIRS, "two"))
    assert again is not None
    assert (again.text.rstrip(), again.origin) == (text.rstrip(), "one: Qwen3MLP.forward")
    renamed = [side.replace("Qwen3Norm", "LlamaNorm") for side in (BASE, OURS, THEIRS)]
    other = Resolutions(project).propose(asked(*renamed, config="llama"))
    assert other is not None
    assert SOLVED.replace("Qwen3Norm", "LlamaNorm") in other.text


def test_another_conflict_is_not_solved(project: Project) -> None:
    question = asked(BASE, OURS, THEIRS)
    Resolutions(project).keep(question, solve(question, SOLVED))
    for old, new in (("2 * x", "3 * x"), ("Qwen3Norm", "Other.Norm"), ("Qwen3Norm", "qwen3_norm")):
        sides = [side.replace(old, new) for side in (BASE, OURS, THEIRS)]
        assert Resolutions(project).propose(asked(*sides)) is None, new


def test_text_that_was_changed_elsewhere_too_is_no_solution_of_the_conflict(project: Project) -> None:
    question = asked(BASE, OURS, THEIRS)
    Resolutions(project).keep(question, solve(question, SOLVED).replace("return y", "return +y"))
    assert Resolutions(project).propose(question) is None


def test_file_that_is_broken_is_as_none(project: Project, tmp_path: Path) -> None:
    question = asked(BASE, OURS, THEIRS)
    for text in ("", "[]", '{"format": 1, "resolutions": [{"ours": 3}]}', '{"format": 9, "resolutions": []}'):
        (tmp_path / "solved.json").write_text(text)
        assert Resolutions(project, tmp_path / "solved.json").propose(question) is None
        path = Decisions(project).path
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        assert Decisions(project).find(question) is None
