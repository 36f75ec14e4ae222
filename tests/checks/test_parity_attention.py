"""Parity with the other implementations of attention: defects that eager attention does not show."""

from __future__ import annotations

import pytest

from tests.checks.parity_runs import PREAMBLE, WHOLE, compare, edited
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

ATTENTION = """
@config.override_method("LlamaAttention.forward")
def attention_forward(
    self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs
):
    input_shape = hidden_states.shape[:-1]
    hidden_shape = (*input_shape, -1, self.head_dim)
    query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
    key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
    value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)
    cos, sin = position_embeddings
    query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)
    if past_key_values is not None:
        key_states, value_states = past_key_values.update(key_states, value_states, self.layer_idx)
    attention_interface = {interface}
    dropout = self.attention_dropout if self.training else 0.0
    attn_output, attn_weights = attention_interface(
        self, query_states, key_states, value_states, {mask}, scaling=self.scaling, dropout=dropout, {arguments}
    )
    attn_output = attn_output.reshape(*input_shape, -1).contiguous()
    return self.o_proj(attn_output), attn_weights
"""
INTERFACE = "ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)"


def attention(interface: str = INTERFACE, mask: str = "attention_mask", arguments: str = "**kwargs") -> str:
    """A patch of the attention, which is right as it is."""
    return ATTENTION.format(interface=interface, mask=mask, arguments=arguments)


def test_a_patch_of_attention_is_run_with_the_other_implementations(work: Workspace) -> None:
    result = compare(work, attention())
    assert result.errors == ()
    batches = {figure.split(", float32")[0].removeprefix("LlamaForCausalLM, ") for figure in result.figures}
    modes = {"rows, sdpa", "padded, flash attention", "packed by lengths, flash attention"}
    assert modes <= batches
    reason = "the patches are about '_attn_implementation'"
    assert f"LlamaForCausalLM: attention is varied, because {reason}" in result.notes


@pytest.mark.parametrize(
    ("patch", "batch"),
    [
        pytest.param(attention(interface="eager_attention_forward"), "sdpa", id="eager whatever is asked for"),
        pytest.param(attention(arguments=""), "packed, flash attention", id="position ids dropped"),
        pytest.param(
            attention(arguments="position_ids=kwargs.get('position_ids')"),
            "packed by lengths, flash attention",
            id="lengths dropped",
        ),
        pytest.param(attention(arguments="is_causal=False, **kwargs"), "rows, sdpa", id="not causal"),
        pytest.param(
            attention(mask="None if self.config._attn_implementation == 'sdpa' else attention_mask"),
            "padded, sdpa",
            id="no mask",
        ),
        pytest.param(
            attention().replace("self.attention_dropout if self.training else 0.0", "self.attention_dropout"),
            "packed, sdpa, with dropout, evaluated",
            id="dropout in evaluation",
        ),
        pytest.param(attention(arguments="sliding_window=3, **kwargs"), "padded, flash attention", id="a window"),
    ],
)
@pytest.mark.mostly_slow(1)
def test_a_wrong_argument_of_an_implementation_is_red(work: Workspace, patch: str, batch: str) -> None:
    (problem,) = compare(work, patch).errors
    assert "look at the patch of 'LlamaAttention.forward'" in problem.message
    assert batch in problem.hint


@pytest.mark.parametrize(("given", "is_right"), [("sliding_window=self.sliding_window, ", True), ("", False)])
@pytest.mark.slow
def test_windows_that_a_configuration_may_have_are_given_to_flash_attention(
    work: Workspace, given: str, is_right: bool
) -> None:
    preamble, patch = (
        text.replace("llama", "qwen2").replace("Llama", "Qwen2")
        for text in (PREAMBLE, attention(arguments=f"{given}**kwargs"))
    )
    problems = compare(work, patch, preamble=preamble).errors
    assert [problem.target for problem in problems] == ["Qwen2Attention.forward"][is_right:]
    assert all("padded, flash attention, sliding_window=5" in problem.hint for problem in problems)


@pytest.mark.slow
def test_a_length_that_a_gpu_would_leave_tokens_out_for_is_red(work: Workspace) -> None:
    (problem,) = compare(work, attention(arguments="**{**kwargs, 'max_length_q': 3}")).errors
    assert "packed by lengths, flash attention" in problem.message
    assert "max_seqlen_q is 3, but a sequence has 6 tokens" in problem.message


@pytest.mark.slow
def test_a_patch_that_attention_cannot_matter_to_runs_as_training_does(work: Workspace) -> None:
    mlp = """
@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""
    assert not any("sdpa" in figure for figure in compare(work, mlp).figures)


LFM2 = "transformers.models.lfm2.modeling_lfm2"
CONVOLVED = "causal_conv1d_fn({}, self.conv.weight.squeeze(1), self.conv.bias{})"
APART = "[hidden_states.shape[-1]] if kwargs.get('cu_seq_lens_q') is None else kwargs['cu_seq_lens_q'].diff().tolist()"
MIXED = "[hidden_states.shape[-1]] if kwargs.get('cu_seq_lens_q') is None else [hidden_states.shape[-1]]"


@pytest.mark.slow
@pytest.mark.parametrize(("lengths", "count"), [(APART, 0), (MIXED, 1)], ids=["kept apart", "mixed"])
def test_sequences_that_upstream_mixes_are_compared_with_each_alone(work: Workspace, lengths: str, count: int) -> None:
    parts = f"({CONVOLVED.format('part', '')} for part in hidden_states.split({lengths}, dim=-1))"
    edits = {CONVOLVED.format("hidden_states", ", **kwargs"): f"torch.cat([*{parts}], dim=-1)"}
    preamble = WHOLE.replace("llama", "lfm2")
    result = compare(work, edited("Lfm2ShortConv.forward", edits, LFM2), preamble=preamble)
    told = [f"{problem.message} {problem.hint}" for problem in result.errors]
    assert ["'two sequences by lengths, as one by one'" in text for text in told] == [True] * count, told
