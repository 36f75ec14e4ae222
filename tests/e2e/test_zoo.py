"""The zoo, as a downstream project: the gate goes red for the right reason and green again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from patchgen_core.upstream import find_upstream

ROOT = Path(__file__).parents[2]
QWEN3 = "zoo.qwen3.qwen3_gpu_patch_gen_config"
GENERATED = "examples/zoo/qwen3/generated/patched_modeling_qwen3_gpu.py"


class Zoo:
    """A copy of the zoo that may be broken, and of the upstream files that it reads."""

    def __init__(self, folder: Path) -> None:
        self.root, self.site = folder / "zoo", folder / "site"
        self.root.mkdir()
        shutil.copy(ROOT / "pyproject.toml", self.root)
        shutil.copytree(ROOT / "examples", self.root / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        for config in sorted(self.root.glob("examples/zoo/*/*_patch_gen_config.py")):
            model = config.parent.name
            upstream = find_upstream(f"transformers.models.{model}.modeling_{model}").path
            target = self.site / "transformers/models" / model / upstream.name
            target.parent.mkdir(parents=True)
            shutil.copy(upstream, target)
        (self.site / "transformers/__init__.py").touch()
        self.upstream = self.site / "transformers/models/qwen3/modeling_qwen3.py"

    def replace(self, path: Path, old: str, new: str) -> None:
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def patchgen(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": str(self.site)}
        command = [sys.executable, "-m", "patchgen_core", *arguments]
        return subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True)

    def goes_red_and_green(self, cause: str, diff: str) -> None:
        """The check fails with this cause and diff, --fix mends it, and the next check passes."""
        red = self.patchgen("--check")
        assert red.returncode == 1, red.stdout + red.stderr
        assert f"drifted  {QWEN3}  {cause}\n" in red.stdout
        assert diff in red.stdout
        assert self.patchgen("--check", "--fix").returncode == 0
        assert self.patchgen("--check").returncode == 0


@pytest.fixture
def zoo(tmp_path: Path) -> Zoo:
    return Zoo(tmp_path)


def test_checked_in_files_are_what_the_configs_make() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "patchgen_core", "--check", "-v"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_edited_generated_file(zoo: Zoo) -> None:
    zoo.replace(zoo.root / GENERATED, "input_dtype = hidden_states.dtype", "input_dtype = torch.bfloat16")
    zoo.goes_red_and_green(
        "edited by hand: Qwen3RMSNorm.forward changed",
        "-        input_dtype = torch.bfloat16\n+        input_dtype = hidden_states.dtype\n",
    )


def test_edited_config(zoo: Zoo) -> None:
    config = zoo.root / "examples/zoo/qwen3/qwen3_gpu_patch_gen_config.py"
    zoo.replace(config, "if labels is not None and slot_", "if logits_to_keep == 0 and labels is not None and slot_")
    zoo.goes_red_and_green(
        "config changed: Qwen3ForCausalLM.forward changed",
        "-        if labels is not None and slot_causal_lm_loss.has_kernel:\n"
        "+        if logits_to_keep == 0 and labels is not None and slot_causal_lm_loss.has_kernel:\n",
    )


def test_edited_upstream(zoo: Zoo) -> None:
    zoo.replace(zoo.upstream, "if n_rep == 1:", "if n_rep <= 1:")
    zoo.goes_red_and_green(
        "upstream moved: transformers 5.23.0; repeat_kv changed", "-    if n_rep == 1:\n+    if n_rep <= 1:\n"
    )


def test_patched_code_that_upstream_lost(zoo: Zoo) -> None:
    zoo.replace(zoo.upstream, "class Qwen3MLP(", "class Qwen3FeedForward(")
    before = (zoo.root / GENERATED).read_bytes()
    done = zoo.patchgen("--check", "--fix")
    assert done.returncode == 2
    assert "upstream transformers.models.qwen3.modeling_qwen3 has no class 'Qwen3MLP'" in done.stdout
    assert (zoo.root / GENERATED).read_bytes() == before


HEADS = """
from transformers import AutoModelForTokenClassification
from patchgen_core.auto import register_with_auto
from patchgen_core.parity.toy import toy_config_for
import zoo.llama, zoo.qwen3

for model_type in ("llama", "qwen3"):
    register_with_auto(model_type)
    head = AutoModelForTokenClassification.from_config(toy_config_for(model_type))
    print(type(head).__module__, type(head.model).__module__)
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "examples")}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)


def test_registered_heads_have_the_patched_model_below_them() -> None:
    done = run(HEADS)
    modules = [f"zoo.{name}.generated.patched_modeling_{name}_gpu" for name in ("llama", "qwen3")]
    assert done.stdout.splitlines() == [f"{module} {module}" for module in modules], done.stderr
