"""Configs that a config imports: of them counts what it declares with them, and not their texts."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from patchgen_core.build.ruff_setup import find_ruff
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.kept.asking import SWITCH
from patchgen_core.checks.registry import CheckInfo
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from patchgen_core.errors import Location, display_path
from tests.checks.kept_project import DRIFT, OTHER, TOY, CountedCheck, make_project, run_gate
from tests.conftest import Workspace

LENT = """
def lent(self, x):
    return x * 3


def lent_too(self, x, y=1):
    return x + y


LENT = {"num_hidden_layers": 3}
"""
BORROWS = """
from proj.models.toy import toy_gpu_patch_gen_config as toy
from proj.models.toy.toy_gpu_patch_gen_config import lent, lent_too

config.toy_config = dict(toy.LENT)
config.override_method("Norm.forward", replacement=lent)
config.override_method("Head.forward", replacement=lent_too)
config.tolerances.extend(toy.config.tolerances)
config.allowed.extend(toy.config.allowed)
"""
TOLERANCE = 'config.tolerate({}, "told {}")'
BOTH = ["other", "toy"]


class PlanCheck(CountedCheck):
    """Sees what configs declare, and tells of the lines where if it is to."""

    name = "planned"
    runs: list[str] = []
    follows_configs = False
    tells_places = False

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing more."""
        return ()

    def run(self, path: Path, item: str) -> Iterable[CheckResult]:
        """One result for each config, with a note of each patch."""
        self.runs.append(path.name.partition("_")[0])
        for result in self.session.results(path):
            assert result.outcome.artifact is not None
            patches = result.outcome.artifact.plan.config.patches
            locations = [patch.location for patch in patches if patch.location is not None] * self.tells_places
            yield self.result(result, "clean", notes=tuple(map(_tell, locations)))


def _tell(location: Location) -> str:
    replaced = Path(location.file).with_name(TOY.rpartition("/")[2])
    return f"one of {location.line}, {display_path(replaced)}"


class InheritingCheck(PlanCheck):
    """Says of its inputs, and not of what it sees of configs."""

    name = "inheriting"

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing more."""
        return ()


CHECKS = (PlanCheck, InheritingCheck)
PLANNED, INHERITING = (CheckInfo(cls.name, "", f"{__name__}:{cls.__name__}") for cls in CHECKS)


def rerun(work: Workspace, check: CheckInfo = PLANNED, settings: Settings | None = None) -> list[str]:
    """The configs whose check ran."""
    PlanCheck.runs.clear()
    run_gate(work, (DRIFT, check), settings)
    return sorted(PlanCheck.runs)


@pytest.fixture
def project(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A project in which one model's config takes functions, a tolerance and more from another one's. One run was
    clean."""
    monkeypatch.setenv(SWITCH, "1")
    find_ruff()
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not place.endswith("site-packages")])
    monkeypatch.setattr(PlanCheck, "tells_places", False)
    make_project(work)
    toy = work.root / "proj/models" / TOY
    toy.write_text(f"{toy.read_text()}{LENT}\n{TOLERANCE.format(2, 'here')}\nconfig.allow('PG214', 'so')\n")
    work.config(BORROWS, OTHER)
    fix(work.check())
    assert rerun(work) == BOTH
    assert rerun(work) == []
    return work


def edit(work: Workspace, old: str, new: str) -> None:
    toy = work.root / "proj/models" / TOY
    assert old in toy.read_text()
    toy.write_text(toy.read_text().replace(old, new))
    fix(work.check())


EDITS = {
    "a remark": ("x * 3\n", "x * 3\n\n\n# a remark\n", ["toy"]),
    "moved lines": ("\ndef lent(", "\n\n# above\n\n\ndef lent(", ["toy"]),
    "what is its own": ("return double(x)", "return double(x) + 1", ["toy"]),
    "a function": ("x * 3", "x * 4", BOTH),
    "a remark in a function": ("    return x * 3", "    # thrice\n    return x * 3", BOTH),
    "a tolerance": ("config.tolerate(2", "config.tolerate(3", BOTH),
    "the reason of a tolerance": ("told here", "told there", BOTH),
    "an allowance": ("'PG214', 'so'", "'PG214', 'as'", BOTH),
    "a toy configuration": ('"num_hidden_layers": 3', '"num_hidden_layers": 2', BOTH),
    "the order of lines": (
        LENT,
        LENT.replace(LENT[: LENT.index("\ndef lent_too")], "") + LENT.split("\ndef lent_")[0],
        BOTH,
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_what_a_config_takes_from_another_counts(project: Workspace, name: str) -> None:
    old, new, expected = EDITS[name]
    edit(project, old, new)
    assert rerun(project) == expected
    assert rerun(project) == []


def test_the_lines_count_where_a_result_tells_of_them(project: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlanCheck, "tells_places", True)
    edit(project, "x * 3", "x * 5")
    assert rerun(project) == BOTH
    edit(project, "\ndef lent(", "\n\n# above\n\n\ndef lent(")
    assert rerun(project) == BOTH
    edit(project, "'PG214', 'so')", "'PG214', 'so')\n# below")
    assert rerun(project) == ["toy"]


def test_the_texts_count_for_a_check_that_does_not_say_otherwise_itself(project: Workspace) -> None:
    assert rerun(project, INHERITING) == BOTH
    edit(project, "x * 3\n", "x * 3\n\n\n# a remark\n")
    assert rerun(project, INHERITING) == BOTH


def test_it_runs_where_the_files_have_drifted_through_another_config(project: Workspace) -> None:
    toy = project.root / "proj/models" / TOY
    toy.write_text(toy.read_text().replace("x * 3", "x * 6"))
    assert rerun(project) == BOTH
    assert rerun(project) == ["other"]
    toy.write_text(toy.read_text().replace("x * 6", "x * 3"))
    assert rerun(project) == ["toy"]


def test_what_it_depends_on_is_known_where_nothing_is_known_of_the_drift(project: Workspace) -> None:
    edit(project, "x * 3\n", "x * 3\n\n\n# a remark\n")
    for file in (project.root / ".patchgen_cache/results").iterdir():
        file.unlink()
    assert rerun(project) == ["toy"]


def test_why_tells_what_declares_something_else(project: Workspace) -> None:
    from patchgen_core.checks.gate import Gate
    from patchgen_core.checks.kept.asking import kept_results
    from patchgen_core.checks.kept.explaining import explain_kept

    edit(project, "config.tolerate(2", "config.tolerate(3")
    path = project.root / "proj/models" / OTHER
    session = Session(project.project, Settings())
    try:
        gate = Gate(session, (DRIFT, PLANNED))
        item = next(item for item in gate.items([path]) if item.check.name == "planned")
        kept = kept_results(session, path)
        assert kept is not None
        explanation = explain_kept(kept, item.check, path, item.name)
    finally:
        session.close()
    assert explanation.changes == (f"changed: what is declared by proj/models/{OTHER}",)
