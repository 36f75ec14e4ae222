"""``patchgen new`` on transformers: what it writes is green at once, and a type without anything to patch is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from patchgen_core.authoring.new import NewResult, create_new
from patchgen_core.authoring.new.model_types import ModelTypes
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.syntax.source import SourceCache

pytestmark = pytest.mark.torch

SETTINGS = '[tool.patchgen]\nsearch_root = "acme/models"\npackage_prefix = "acme.models"\n'
GREEN = {
    "cohere2": ["Cohere2MLP.forward", "Cohere2ForCausalLM.forward"],
    "dots1": ["Dots1RMSNorm.forward", "Dots1MLP.forward", "apply_rotary_pos_emb", "Dots1Experts.forward"],
    "gemma2": ["Gemma2RMSNorm.forward", "Gemma2MLP.forward", "apply_rotary_pos_emb", "Gemma2ForCausalLM.forward"],
    "granite": ["GraniteRMSNorm.forward", "GraniteMLP.forward", "apply_rotary_pos_emb", "GraniteForCausalLM.forward"],
    "helium": ["HeliumRMSNorm.forward", "HeliumMLP.forward", "HeliumForCausalLM.forward"],
    "olmo2": ["Olmo2RMSNorm.forward", "Olmo2MLP.forward", "apply_rotary_pos_emb", "Olmo2ForCausalLM.forward"],
    "phi3": ["Phi3RMSNorm.forward", "Phi3ForCausalLM.forward", "Phi3ForSequenceClassification.forward"],
    "gpt2": ["GPT2LMHeadModel.forward", "GPT2PreTrainedModel._initialize_weights"],
    "qwen2_moe": ["Qwen2MoeRMSNorm.forward", "Qwen2MoeMLP.forward", "apply_rotary_pos_emb", "Qwen2MoeExperts.forward"],
}
"""Model types that the zoo has not, and the first of what is patched in each."""


def project_in(folder: Path) -> Project:
    """A project that has no folder for models yet."""
    (folder / "acme").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    return load_project(folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, NewResult]]:
    """A project with a folder for each type."""
    folder = tmp_path_factory.mktemp("new")
    project = project_in(folder)
    return folder, {name: create_new(project, name) for name in GREEN}


def gate(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "pytest_patchgen", "-p", "no:anyio", "-p", "no:randomly", "-q"]
    env = {**os.environ, "PYTEST_ADDOPTS": ""}
    done = subprocess.run([*command, *arguments], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", GREEN)
@pytest.mark.slow
def test_patches_what_fits(name: str, made: tuple[Path, dict[str, NewResult]]) -> None:
    result = made[1][name]
    targets = [patch.target for patch in result.patches]
    assert targets[: len(GREEN[name])] == GREEN[name]
    assert (result.errors, result.warnings) == ((), ())
    assert re.search(rf'@config.edit_method\(\s*"{GREEN[name][0]}"', result.config.read_text(encoding="utf-8"))
    assert {path.name for path, _ in result.files if "experts" in str(result.patches)} >= (
        {"parallel_plan.py", "checkpoint_tensor_converter.py"} if name in ("dots1", "qwen2_moe") else set()
    )


def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    results = {name: create_new(project, name) for name in ("phi3", "cohere2")}
    reasons = {entry.name: entry.reason for result in results.values() for entry in result.left}
    assert (
        reasons["Phi3MLP"] == "one fused projection makes gate and up, but the patch is for an MLP with one for each"
    )
    assert "mean" in reasons["Cohere2LayerNorm"]
    phi3 = results["phi3"].config.read_text(encoding="utf-8")
    assert "- ``apply_rotary_pos_emb``: it rotates a part of each head (partial), but rotary_pos_emb/full" in phi3


@pytest.mark.slow
def test_gate_is_green_over_all_of_them(made: tuple[Path, dict[str, NewResult]]) -> None:
    shown = gate(made[0], "--patchgen-checks=drift,contract", "acme")
    count = 2 * len(GREEN) + 1  # and no file that no config makes
    assert f"{len(GREEN)} configs, {count} checks: {count} ok." in shown


@pytest.mark.slow
def test_parity_is_green(made: tuple[Path, dict[str, NewResult]]) -> None:
    types = [f"acme/models/{name}" for name in ("cohere2", "gpt2", "phi3")]
    shown = gate(made[0], "--patchgen-checks=parity", "-k", "eager or eager_through_slots", *types)
    assert "3 configs, 6 checks: 6 ok." in shown


@pytest.mark.slow
def test_parts_that_automodel_makes_are_the_modules_own(tmp_path: Path) -> None:
    result = create_new(project_in(tmp_path), "qwen3_vl_moe", dry_run=True)
    texts = {path.name: text for path, text in result.files}
    config = texts["qwen3_vl_moe_gpu_patch_gen_config.py"]
    assert "self.language_model = Qwen3VLMoeTextModel._from_config(config.text_config)\n" in config
    assert '"model.language_model.layers.*.mlp.experts.down_proj": Shard(0),' in texts["parallel_plan.py"]
    assert result.written == ()


def test_nothing_to_patch(tmp_path: Path) -> None:
    with pytest.raises(PatchgenError, match=r"nothing of 'transformers.models.t5.modeling_t5' fits an op slot"):
        create_new(project_in(tmp_path), "t5")


def test_model_types_have_modules() -> None:
    types = ModelTypes(SourceCache())
    names = types.names
    assert len(names) > 500
    assert {types.find(name).module.startswith("transformers.models.") for name in names[::12]} == {True}
