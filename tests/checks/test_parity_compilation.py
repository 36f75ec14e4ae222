"""Parity traces a model whole, as torch.compile does, and sees what breaks its graph."""

from __future__ import annotations

import pytest

from tests.checks.parity_runs import PREAMBLE, compare, line_of
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

MLP = """
@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    hidden = self.act_fn(self.gate_proj(x)) * self.up_proj(x)
    {}
    return self.down_proj(hidden)
"""
BRANCH = "if hidden.max() > 1e4:\n        hidden = hidden.clamp(max=1e4)"


@pytest.mark.slow
def test_a_patch_that_breaks_the_graph_is_red_where_it_does(work: Workspace) -> None:
    result = compare(work, MLP.format(BRANCH))
    (problem,) = result.errors
    assert "batch 'packed, compiled', float32: the patched model raises GraphBreakError" in problem.message
    assert "Detected data-dependent branching" in problem.message
    assert "The patch of 'LlamaMLP.forward' was running" in problem.hint
    assert problem.location is not None
    assert problem.location.line == line_of(work, '@config.override_method("LlamaMLP.forward")')
    assert "if hidden.max() > 1e4:" in problem.excerpt


@pytest.mark.slow
def test_a_patch_that_stays_one_graph_is_green(work: Workspace) -> None:
    result = compare(work, MLP.format("hidden = hidden.clamp(max=hidden.detach().abs().max())"))
    assert result.errors == ()
    assert any(figure.startswith("LlamaForCausalLM, packed, compiled, float32: logits") for figure in result.figures)
    assert "LlamaForCausalLM: compilation is varied, because the patches are about 'max'" in result.notes


@pytest.mark.slow
def test_experts_in_a_loop_which_upstream_has_as_well_are_not_traced(work: Workspace) -> None:
    preamble = PREAMBLE.replace("Llama", "Qwen3Moe").replace("llama", "qwen3_moe")
    experts = """
@config.override_method("Qwen3MoeExperts.forward")
def experts_forward(self, hidden_states, top_k_index, top_k_weights):
    final = torch.zeros_like(hidden_states)
    for expert in torch.unique(top_k_index).tolist():
        chosen, token = torch.where((top_k_index == expert).T)
        gate, up = torch.nn.functional.linear(hidden_states[token], self.gate_up_proj[expert]).chunk(2, dim=-1)
        out = torch.nn.functional.linear(self.act_fn(gate) * up, self.down_proj[expert])
        final.index_add_(0, token, (out * top_k_weights[token, chosen, None]).to(final.dtype))
    return final
"""
    result = compare(work, experts, preamble=preamble)
    assert result.errors == ()
    assert not any("compil" in text for text in (*result.notes, *result.figures))


@pytest.mark.slow
def test_a_model_of_upstream_that_is_no_graph_may_be_none_when_it_is_patched(work: Workspace) -> None:
    preamble = '\nfrom patchgen import PatchConfig\n\nconfig = PatchConfig("{}", "patched_modeling_toy_gpu.py")\n'
    branch = """
@config.override_method("LongformerIntermediate.forward")
def intermediate_forward(self, hidden_states):
    hidden = self.intermediate_act_fn(self.dense(hidden_states))
    return hidden.clamp(max=float(hidden.max()))
"""
    result = compare(work, branch, preamble=preamble.format("transformers.models.longformer.modeling_longformer"))
    assert [error.message for error in result.errors] == []
    notes = [note for note in result.notes if "compiled" in note]
    assert len(notes) == 1
    assert "compiled', cannot serve as the reference: it raises GraphBreakError" in notes[0]
