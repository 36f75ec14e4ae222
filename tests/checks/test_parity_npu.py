"""Code for an NPU in parity: operators of torch_npu by a stand-in, behind the conditions that ask for the device."""

from __future__ import annotations

import sys

import pytest

from patchgen_core.checks.result import CheckResult
from tests.checks.parity_runs import NORM, PREAMBLE, compare
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

IMPORT = f"""{PREAMBLE}
config.add_post_import_block('''
try:
    import torch_npu
except ImportError:
    torch_npu = None
''')
"""
ON_NPU = """
    if hidden_states.device.type == "npu":
        return torch_npu.npu_rms_norm(hidden_states, self.weight, epsilon=self.variance_epsilon)[{result}]
"""
NPU_NORM = NORM.replace("(self, hidden_states):\n", f"(self, hidden_states):{ON_NPU}")
MLP = """
@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    if x.device.type == "npu" and self.config.hidden_act == "silu":
        gate_up = torch.cat(({halves}), dim=-1)
        return self.down_proj(torch_npu.npu_swiglu(gate_up, dim=-1))
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""
RIGHT = NPU_NORM.format(result=0) + MLP.format(halves="self.gate_proj(x), self.up_proj(x)")


def run(work: Workspace, text: str) -> CheckResult:
    return compare(work, text, preamble=IMPORT)


def test_lines_for_an_npu_run_by_a_stand_in_and_the_result_says_so(work: Workspace) -> None:
    result = run(work, RIGHT)
    assert result.errors == ()
    assert any("padded, operators of an NPU" in figure for figure in result.figures)
    operators = "npu_rms_norm, npu_swiglu of torch_npu, and a stand-in computes them here"
    assert f"LlamaForCausalLM: npu is varied, because the patches call {operators}" in result.notes
    assert "torch_npu" not in sys.modules


def test_one_activation_for_all_on_an_npu_is_red(work: Workspace) -> None:
    text = MLP.format(halves="self.gate_proj(x), self.up_proj(x)")
    (problem,) = run(work, text.replace(' and self.config.hidden_act == "silu"', "")).errors
    assert problem.target == "LlamaMLP.forward"
    assert "'padded, operators of an NPU, hidden_act=gelu_pytorch_tanh'" in problem.hint


@pytest.mark.slow
def test_dropout_on_an_npu_alone_is_red(work: Workspace) -> None:
    dropped = "torch.nn.functional.dropout(torch_npu.npu_swiglu(gate_up, dim=-1), self.config.attention_dropout)"
    text = MLP.format(halves="self.gate_proj(x), self.up_proj(x)")
    (problem,) = run(work, text.replace("torch_npu.npu_swiglu(gate_up, dim=-1)", dropped)).errors
    assert problem.target == "LlamaMLP.forward"
    assert "'padded, operators of an NPU, with dropout'" in problem.hint


def test_swapped_halves_are_red_at_their_patch(work: Workspace) -> None:
    (problem,) = run(work, MLP.format(halves="self.up_proj(x), self.gate_proj(x)")).errors
    assert "look at the patch of 'LlamaMLP.forward'" in problem.message
    assert "Batch 'padded, operators of an NPU'" in problem.hint


def test_the_root_in_place_of_the_output_is_red(work: Workspace) -> None:
    (problem,) = run(work, NPU_NORM.format(result=1)).errors
    assert "batch 'padded, operators of an NPU'" in problem.message


def test_code_that_calls_an_operator_without_a_stand_in_is_not_run(work: Workspace) -> None:
    result = run(work, NPU_NORM.format(result=0).replace("npu_rms_norm", "npu_rms_norm_of_tomorrow"))
    assert result.errors == ()
    assert not any("npu is varied" in note for note in result.notes)
