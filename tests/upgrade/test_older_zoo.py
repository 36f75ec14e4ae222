"""A part of the older zoo, upgraded from 5.9.0 to today's release: verdicts, merges, and the gate on what came out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from patchgen_core.project.project import Project
from patchgen_core.upgrade.package_configs import select_configs
from patchgen_core.workers.collector import without_collector
from tests.upgrade import older
from tests.upgrade.upgrade_history import HISTORY, RELEASES
from tools.releases import find_releases

pytestmark = [pytest.mark.torch, pytest.mark.slow]

MODELS = ("llama", "qwen3", "qwen3_moe", "seed_oss", "qwen2_vl")
OLD, NEW = RELEASES[0], RELEASES[-1]
BY_STEPS = ("llama", "seed_oss", "qwen3_moe", "qwen2_vl")
STEPS = ("5.10.4", "5.18.0", "5.21.1", NEW)
"""Where something happens to these models that is carried over; the steps between change nothing of theirs."""

ORDER = ("signature changed", "decorators changed", "changed", "cosmetic")
RELIED = {
    ("qwen2_vl", "Qwen2VLModel.forward", "Qwen2VLModelOutputWithPast", "gone"),
    ("qwen2_vl", "Qwen2VLForConditionalGeneration.forward", "Qwen2VLCausalLMOutputWithPast", "gone"),
}
"""What patches rely on and upstream took away: by model, target, name and kind."""

RUNS_DUMMY = "Qwen2VLModel.forward"
"""Only the zoo tells apart features that were computed before: by hand, for no upstream has the tower run there."""


def upgraded(folder: Path, models: tuple[str, ...], steps: tuple[str, ...]) -> tuple[Project, list[older.Step]]:
    """A project of some models after some steps, made in an empty folder."""
    with without_collector():
        project = older.make_project(folder, models, OLD)
        releases = find_releases()
        assert older.generate(project, releases.find(OLD)) == ()
        passed = [RELEASES[1:-1]] if len(steps) == 1 else [()] * len(steps)
        return project, [older.take_step(project, releases, to, passing=by) for to, by in zip(steps, passed)]


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, older.Step]:
    """The project, upgraded in one step."""
    project, (step,) = upgraded(tmp_path_factory.mktemp("at_once"), MODELS, (NEW,))
    return project, step


def expected(model: str, target: str) -> str:
    """What the table says of a target over all releases."""
    history = HISTORY[model].get(target, ())
    if isinstance(history, str):
        return history
    kinds = [step.what for step in history]
    return next((kind for kind in ORDER if kind in kinds), "unchanged")


def test_verdicts_over_all_releases(at_once: tuple[Project, older.Step]) -> None:
    found = {(older.model_of(c), p.target): p.verdict for c, p in older.verdicts(at_once[1].report)}
    assert found == {(model, target): expected(model, target) for model, target in found}


def test_what_patches_rely_on_and_is_gone_is_told(at_once: tuple[Project, older.Step]) -> None:
    found = {
        (older.model_of(config), patch.target, finding.about, finding.kind)
        for config, patch in older.verdicts(at_once[1].report)
        for finding in patch.findings[1:]
        if finding.risk == "must change"
    }
    assert found >= RELIED


def test_what_came_out_is_the_zoo_of_today(at_once: tuple[Project, older.Step]) -> None:
    project, step = at_once
    assert step.problems == ()
    different = older.differences(project, select_configs(project))
    assert {target for _, target in different} <= {RUNS_DUMMY}, different


def test_steps_come_to_the_same_code(
    at_once: tuple[Project, older.Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    project, steps = upgraded(tmp_path_factory.mktemp("by_steps"), BY_STEPS, STEPS)
    assert [step.problems for step in steps] == [()] * len(STEPS)
    for loaded in select_configs(project).configs:
        there = Path("zoo", loaded.path.parent.name, "generated", loaded.config.target_file)
        assert older.code(project.base / there) == older.code(at_once[0].base / there), loaded.label


def test_gate_is_green_on_what_was_merged(at_once: tuple[Project, older.Step]) -> None:
    configs = [f"zoo/{model}/{model}_gpu_patch_gen_config.py" for model in ("llama", "qwen3_moe", "qwen2_vl")]
    command = [sys.executable, "-m", "pytest", "-p", "pytest_patchgen", "-q", *configs]
    done = subprocess.run(command, cwd=at_once[0].base, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
