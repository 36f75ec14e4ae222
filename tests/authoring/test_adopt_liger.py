"""Liger's own monkey patches, adopted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from patchgen_core.authoring.adopt import adopt
from patchgen_core.errors import PatchgenError
from tests.authoring.monkey_patches import make, only_finding
from tests.conftest import Workspace

COMPARE = """
import importlib, json, sys
from patchgen_core.models.interpreter import switch_on
switch_on()
import torch
from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN
from patchgen_core.models.toy_config import toy_config_for

name, head = sys.argv[1:]
upstream = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
made = importlib.import_module(f"proj.models.{name}.generated.patched_modeling_{name}_gpu")


def run(module, state):
    torch.manual_seed(0)
    config = toy_config_for(name)
    config._attn_implementation = "eager"
    model = getattr(module, head)(config).train()
    model.load_state_dict(state or model.state_dict())
    tokens = torch.arange(14).reshape(2, 7) + 5
    output = model(input_ids=tokens, labels=tokens)
    output.loss.backward()
    return model, output, {name: parameter.grad for name, parameter in model.named_parameters()}


model, eager, eager_grads = run(upstream, None)
_, ours, our_grads = run(made, model.state_dict())
MODEL_TYPE_TO_APPLY_LIGER_FN[name]()
_, theirs, their_grads = run(upstream, model.state_dict())
print(json.dumps({
    "no logits": ours.logits is None and theirs.logits is None and eager.logits is not None,
    "loss": torch.equal(ours.loss, theirs.loss),
    "gradients": all(torch.equal(our_grads[key], their_grads[key]) for key in their_grads),
    "loss off": abs(ours.loss - eager.loss).item(),
    "gradients off": max((our_grads[key] - eager_grads[key]).abs().max().item() for key in eager_grads),
}))
"""


@pytest.mark.torch
@pytest.mark.slow
def test_liger_for_gemma2(work: Workspace) -> None:
    """Generated, the module computes bit for bit what Liger's monkey patch computes."""
    result = adopt(work.project, "gemma2")
    assert not result.findings
    targets = {"Gemma2RMSNorm", "Gemma2MLP", "apply_rotary_pos_emb", "Gemma2ForCausalLM.forward"}
    assert {change.split(" = ")[0] for change in result.changes} == targets
    assert not make(work, result).verdict.errors
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(work.root)])}
    command = [sys.executable, "-c", COMPARE, "gemma2", "Gemma2ForCausalLM"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["no logits"]
    assert found["loss"]
    assert found["gradients"]
    assert max(found["loss off"], found["gradients off"]) < 1e-5


@pytest.mark.torch
@pytest.mark.slow
def test_what_liger_changes_for_the_whole_process_is_a_finding(work: Workspace) -> None:
    result = adopt(work.project, "granite")
    finding = only_finding(result)
    assert "torch.nn.functional.cross_entropy = liger_kernel.transformers.functional.liger_cross_entropy" in finding
    assert "'--kwargs cross_entropy=false' leaves it out." in finding


@pytest.mark.torch
@pytest.mark.slow
def test_what_transformers_does_not_initialize_outside_its_package_is(work: Workspace) -> None:
    result = adopt(work.project, "qwen3_next")
    target = "Qwen3NextPreTrainedModel._initialize_weights"
    assert f"{target} is added, so that models start with the values that upstream's do" in result.notes
    assert "super()._initialize_weights(module)" in make(work, result).artifact.text


@pytest.mark.torch
@pytest.mark.slow
def test_model_types_that_transformers_or_liger_lack(work: Workspace) -> None:
    with pytest.raises(
        PatchgenError, match=r"has no model type 'lama' with a modeling module\n  Did you mean 'llama'"
    ):
        adopt(work.project, "lama")
    with pytest.raises(PatchgenError, match=r"there is no 'liger' patch for the model type 'opt'"):
        adopt(work.project, "opt")
