"""A broken copy of the zoo: the contract items are red, and every finding is right."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
QWEN3 = "examples/zoo/qwen3/qwen3_gpu_patch_gen_config.py"
MISTRAL = "examples/zoo/mistral/mistral_gpu_patch_gen_config.py"
EDITS = [
    ('config.drop_decorators("Qwen3RMSNorm", "use_kernel_forward_from_hub")\n', ""),
    ('    "Qwen3RMSNorm.forward",\n', '    "Qwen3RMSNorm.forward",  # PG212\n'),
    ('config.add_import("transformers.modeling_outputs", names=["SequenceClassifierOutputWithPast"])\n', ""),
    ('config.add_import("transformers.utils", names=["logging"])\n', ""),
    ('config.add_import("patchgen_core.runtime.parallel", names=list(SEQUENCE_PARALLEL))\n', ""),
    ("from patchgen import", "import torch\nfrom torch import nn\nfrom patchgen import"),
]
IMPORTED = """
from patchgen import PatchConfig, create_patch_from_external

config = PatchConfig("transformers.models.mistral.modeling_mistral", "patched_modeling_mistral_gpu.py")
config.drop_decorators("MistralAttention", "use_kernelized_func")
config.patches.extend(
    [
        create_patch_from_external(
            target="MistralRMSNorm",
            replacement_module="liger_kernel.transformers.swiglu",
            replacement_name="LigerSwiGLUMLP",  # PG202 PG202 PG202
        ),
        create_patch_from_external(
            target="apply_rotary_pos_emb",
            replacement_module="liger_kernel.transformers.rope",
            replacement_name="liger_rotary_position_emb",  # PG224
        ),
    ]
)
"""
ADDED = """
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer

config.allow("PG219", "there is no dummy forward")  # PG200
config.add_import("math", names=["prod"])  # PG214
config.add_post_import_block("NORM = OpSlot('rms_norm', 'full')")  # PG206


@config.replace_function("apply_rotary_pos_emb")
def qwen3_apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    q_embed = (q * cos.unsqueeze(unsqueeze_dim)) + (rotate_half(q) * sin.unsqueeze(unsqueeze_dim))
    return q_embed  # PG223


@config.add_helper  # PG207
def range(count):
    return tuple(reversed(count))


@config.override_method("Qwen3MLP.__init__")  # PG222
def qwen3_mlp_init(self, config):
    super().__init__()
    self.config = config
    self.gate_up_proj = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
    self.gate_proj = self.up_proj = self.gate_up_proj
    self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)


@config.override_method("Qwen3DecoderLayer.forward")
def qwen3_decoder_layer_forward(  # PG201 PG201
    self, hidden_states, position_embeddings, attention_mask=None, past_key_values=None, use_cache=False, **kwargs
):
    residual = hidden_states
    hidden_states, _ = self.self_attn(
        hidden_states, position_embeddings, attention_mask, past_key_values=past_key_values, **kwargs
    )
    hidden_states = residual + hidden_states
    return hidden_states + self.mlp(self.post_attention_layernorm(hidden_states), NORM)  # PG202


@config.override_method("Qwen3ForCausalLM.forward")
def qwen3_for_causal_lm_forward(  # PG213
    self,
    input_ids=None,
    attention_mask=None,
    position_ids=None,
    past_key_values=None,
    inputs_embeds=None,
    labels=None,
    use_cache=None,
    logits_to_keep=0,
    ring_size=1,
    **kwargs,
):
    outputs = self.model(input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache, **kwargs)
    hidden_states = outputs.last_hidden_state
    loss = logits = None
    if labels is not None:
        loss, logits = self.loss_function(hidden_states=hidden_states, labels=labels)  # PG218
    else:
        logits = self.lm_head(hidden_states[:, -logits_to_keep:, :])
    return CausalLMOutputWithPast(loss, logits, outputs.past_key_values, range([outputs.hidden_states]))  # PG205


@config.override_method("Qwen3ForCausalLM.get_position_id_func")
def qwen3_get_position_id_func(self):
    return lambda batch: batch  # PG216
"""


def broken(folder: Path) -> Path:
    """A copy of three models with one defect for most of the rules; marks say where which is to be found."""
    root = folder / "zoo"
    root.mkdir()
    shutil.copy(ROOT / "pyproject.toml", root)
    for model in ("llama", "mistral", "qwen3"):
        source = ROOT / "examples/zoo" / model
        shutil.copytree(source, root / "examples/zoo" / model, ignore=shutil.ignore_patterns("__pycache__"))
    text = (root / QWEN3).read_text(encoding="utf-8").partition("config.edit_function")[0]
    for old, new in EDITS:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (root / QWEN3).write_text(text + ADDED, encoding="utf-8")
    (root / MISTRAL).write_text(IMPORTED, encoding="utf-8")
    return root


def contract(root: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """A run of the plugin, and what its contract items say."""
    command = [sys.executable, "-m", "pytest", "-p", "pytest_patchgen", "-p", "no:cacheprovider", *arguments]
    command += ["--patchgen-checks=contract", "--patchgen-report=report.json", "examples"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env={**os.environ, "CI": ""})
    return done, json.loads((root / "report.json").read_text(encoding="utf-8"))["results"]


def marked(root: Path) -> set[tuple[str, int, str]]:
    """File, line and code of every mark."""
    return {
        (path, number, code)
        for path in (QWEN3, MISTRAL)
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1)
        for code in re.findall(r"PG2\d\d", line.partition("  # ")[2])
    }


def test_every_defect_is_found_at_its_line_and_nothing_else(tmp_path: Path) -> None:
    root = broken(tmp_path)
    done, results = contract(root, "-v")
    assert done.returncode == 1, done.stdout + done.stderr
    problems = [problem for result in results for problem in (*result["errors"], *result["warnings"])]
    places = {(p["location"]["file"], p["location"]["line"], p["code"]) for p in problems}
    assert places == marked(root)
    for problem in problems:
        assert problem["hint"]
        line = problem["excerpt"].splitlines()
        assert any(row.startswith(f"> {problem['location']['line']:5} |") for row in line)


@pytest.mark.slow
def test_zoo_itself_is_green_under_every_rule() -> None:
    command = [sys.executable, "-m", "patchgen_core", "check", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert [(config["contract"]["errors"], config["contract"]["warnings"]) for config in found["configs"]] == [
        ([], [])
    ] * len(found["configs"])
    assert done.returncode == 0
