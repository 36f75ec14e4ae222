"""What was red last time runs first, then what is cheap; reports keep the order of the items."""

from __future__ import annotations

import json
import random

import pytest

from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.kept.asking import SWITCH
from patchgen_core.checks.kept.entries import Past
from patchgen_core.checks.order import arrange
from tests.conftest import DEFECTS, PATCH, UPSTREAM_TEXT, Workspace

CHECKS = "--checks=drift,contract"
NAMES = ("a", "b", "c")


def arranged(past: dict[str, Past], *keys: str) -> list[str]:
    return arrange([(key, key) for key in keys], past)


def test_what_is_not_known_runs_in_its_own_order() -> None:
    assert arranged({}, "b::parity", "a::drift") == ["b::parity", "a::drift"]


def test_red_runs_first_then_cheap_then_config_by_config() -> None:
    past = {
        "a::drift": Past(0.1, False),
        "a::parity": Past(30.0, False),
        "a::plan": Past(2.0, False),
        "b::drift": Past(0.1, False),
        "b::parity": Past(5.0, False),
        "b::plan": Past(2.0, False),
        "c::drift": Past(0.1, False),
        "c::parity": Past(9.0, True),
        "c::contract": Past(0.2, True),
    }
    keys = list(past)
    expected = ["c::contract", "c::parity", "a::drift", "b::drift", "c::drift"]
    expected += ["b::plan", "b::parity", "a::plan", "a::parity"]
    for seed in range(5):
        mixed = list(past.items())
        random.Random(seed).shuffle(mixed)
        assert arranged(dict(mixed), *keys) == expected


def test_an_item_that_is_new_runs_by_what_its_check_usually_takes() -> None:
    past = {"a::drift": Past(0.1, False), "a::parity": Past(0.3, False)}
    keys = ["new::parity", "new::drift", "a::parity", "a::drift"]
    assert arranged(past, *keys) == ["new::drift", "a::drift", "a::parity", "new::parity"]


def test_nothing_is_lost_or_doubled() -> None:
    chosen = random.Random(1)
    keys = [f"{config}::{check}" for config in range(20) for check in ("drift", "parity[eager]", "plan", "other")]
    past = {key: Past(chosen.random() * 20, chosen.random() < 0.2) for key in keys if chosen.random() < 0.8}
    assert sorted(arranged(past, *keys)) == sorted(keys)


@pytest.fixture
def project(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Three clean configs."""
    monkeypatch.setenv(SWITCH, "1")
    work.upstream(UPSTREAM_TEXT)
    for name in NAMES:
        work.config(PATCH, f"{name}/{name}_gpu_patch_gen_config.py")
    fix(work.check())
    return work


def break_last(work: Workspace) -> None:
    work.config(DEFECTS, "c/c_gpu_patch_gen_config.py")
    fix(work.check())


def test_the_command_runs_what_was_red_first_and_stops_there(project: Workspace) -> None:
    break_last(project)
    before = project.patchgen("gate", CHECKS, "--report=1.json")
    assert before.returncode == 1
    after = project.patchgen("gate", CHECKS, "-x", "--report=2.json")
    assert after.returncode == 1
    first, second = (json.loads((project.root / f"{number}.json").read_text()) for number in (1, 2))
    red = "proj/models/c/c_gpu_patch_gen_config.py::contract"
    assert [result["item"] for result in second["results"]] == [red]
    assert second["not_run"] == [result["item"] for result in first["results"] if result["item"] != red]
    assert "1 check: 1 failed, 6 not run.\n" in after.stdout


@pytest.mark.slow
def test_reports_keep_the_order_of_the_items(project: Workspace) -> None:
    names = []
    for number in range(3):
        project.patchgen("gate", CHECKS, f"--report={number}.json")
        data = json.loads((project.root / f"{number}.json").read_text())
        names.append([result["item"] for result in data["results"]])
        break_last(project)
    assert names == [names[0]] * 3
    assert len(names[0]) == 7


def test_without_the_cache_there_is_no_past(project: Workspace) -> None:
    break_last(project)
    for _ in range(2):
        project.patchgen("gate", CHECKS, "--no-cache", "-x", "--report=1.json")
    results = json.loads((project.root / "1.json").read_text())["results"]
    assert len(results) == 6


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"items": {"a": [1]}}'])
@pytest.mark.slow
def test_a_past_that_was_spoilt_is_none(project: Workspace, text: str) -> None:
    break_last(project)
    project.patchgen("gate", CHECKS)
    (project.root / ".patchgen_cache/checks/past.json").write_text(text)
    done = project.patchgen("gate", CHECKS, "--report=1.json")
    assert (done.returncode, len(json.loads((project.root / "1.json").read_text())["results"])) == (1, 7)
