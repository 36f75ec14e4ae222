"""Models of a project that nobody here tuned for: its causal heads and converters are what Hugging Face's are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from patchgen_core.checks.kept.asking import SWITCH
from tools.real_models import run_gate, set_up_project
from tools.real_project import find_upstream_release, make_real_project

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SETUPS = Path(__file__).parent / "real_project"
SETUP = SETUPS / "veomni_setup.py"
SETTINGS = """
setup = "veomni_setup:setup"

[tool.patchgen.parity]
leave_out = { "*ForSequenceClassification" = "its labels are those of tokens" }
"""
MODELS = ("llama", "qwen2", "qwen3", "qwen3_moe", "deepseek_v3", "seed_oss", "gpt_oss")
MORE = {
    "llama": ("import",),
    "qwen3_moe": ("converter",),
    "deepseek_v3": ("converter",),
    "qwen3_omni_moe": ("converter", "plan"),
}
"""Imports that the set-up makes possible; converters; and a class without talker and vocoder, with a plan for that."""
OTHERWISE = {
    "0.1.11": ("Qwen3MoeTopKRouter.forward", "'SeedOssMLP'"),
    "0.1.12": ("sampled with a static cache", "'SeedOssMLP'"),
}
"""What is not upstream's. A router gives logits where that of transformers 5.2 gives probabilities, on purpose, which
changes the auxiliary loss. Models that were patched for an earlier release count positions by ``torch.arange``, which
does not take the tensor that a static cache of transformers 5.9 says its length by. The fused MLP in the place of
Seed-OSS's leaves out its dropout."""


@pytest.mark.parametrize(("version", "models"), [("0.1.12", MODELS), ("0.1.11", MODELS[:-1])])
def test_causal_heads_and_converters_are_upstreams(version: str, models: tuple[str, ...], tmp_path: Path) -> None:
    project = make_real_project(version, tmp_path)
    set_up_project(tmp_path, SETTINGS, [SETUP])
    configs = {name: project.search_root / name / f"{name}_gpu_patch_gen_config.py" for name in (*models, *MORE)}
    items = [f"{configs[name]}::{check}" for name in models for check in ("drift", "parity[eager]")]
    items += [f"{configs[name]}::{check}" for name, checks in MORE.items() for check in checks]
    results = run_gate(tmp_path, find_upstream_release(version).folder, items)
    assert len(results) == len(items)
    wrong = [result for result in results if result["status"] not in ("clean", "fixed")]
    messages = [error["message"] for result in wrong for error in result["errors"]] or [r["reason"] for r in wrong]
    assert all(any(part in message for part in OTHERWISE[version]) for message in messages), messages
    assert messages


def test_ranks_share_causal_models_by_the_projects_own_parallel_state(tmp_path: Path) -> None:
    project = make_real_project("0.1.12", tmp_path)
    settings = 'setup = "veomni_ranks:setup"\n[tool.patchgen.sharded]\nmeshes = ["fsdp2", "ep2"]\n'
    set_up_project(tmp_path, settings, [SETUP, SETUPS / "veomni_ranks.py"])
    models = ("llama", "qwen3", "qwen3_moe")
    configs = [str(project.search_root / name / f"{name}_gpu_patch_gen_config.py") for name in models]
    upstream = find_upstream_release("0.1.12").folder
    results = run_gate(tmp_path, upstream, ["--patchgen-checks=drift,sharded", *configs])
    shared = [result for result in results if result["check"] == "sharded"]
    assert len(shared) == 4
    assert [result["errors"] for result in shared if result["status"] != "clean"] == []


def test_results_are_kept_whatever_its_utilities_could_look_at(tmp_path: Path) -> None:
    project = make_real_project("0.1.12", tmp_path)
    set_up_project(tmp_path, SETTINGS, [SETUP])
    checks = {"llama": "import", "qwen3_moe": "converter", "qwen3": "parity[eager]"}
    configs = {name: project.search_root / name / f"{name}_gpu_patch_gen_config.py" for name in checks}
    upstream = find_upstream_release("0.1.12").folder
    run_gate(tmp_path, upstream, [f"{config}::drift" for config in configs.values()])
    command = [sys.executable, "-m", "patchgen_core", "gate", "--output-format", "json"]
    command += [f"{configs[name]}::{check}" for name, check in checks.items()]
    for is_kept in (False, True):
        environment = {**os.environ, "PYTHONPATH": str(upstream), SWITCH: "1"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        results = json.loads(done.stdout)["results"]
        assert [result["status"] for result in results] == ["clean"] * len(checks)
        assert [bool(result["made"]) for result in results] == [is_kept] * len(checks)
