"""Parity sees what patches do to checkpointed layers, under autocast, with adapters and in other tools of trainers."""

from __future__ import annotations

import pytest

from patchgen_core.ops.kernel_spec import EAGER
from tests.checks.parity_runs import PREAMBLE, compare
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

WITH_TORCH = PREAMBLE.replace("import torch\n", "import torch\nfrom torch import nn\n")
MLP = """
@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    hidden = self.act_fn(self.gate_proj(x)) * self.up_proj(x)
    {}
"""
ANOTHER_WAY_WITHOUT_GRADIENTS = MLP.format(
    "return self.down_proj(hidden) * (2.0 if self.training and not torch.is_grad_enabled() else 1.0)"
)
SUM_IN_THE_DTYPE_OF_THE_INPUT = MLP.format(
    "rows = torch.arange(x.shape[1])\n    return torch.zeros_like(x).index_add_(1, rows, self.down_proj(hidden))"
)
LAYERS_PAST_THEIR_HOOKS = """
@config.override_method("LlamaModel.forward")
def model_forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None,
                  inputs_embeds=None, use_cache=None, **kwargs):
    inputs_embeds = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
    if use_cache and past_key_values is None:
        past_key_values = DynamicCache(config=self.config)
    if position_ids is None:
        seen = past_key_values.get_seq_length() if past_key_values is not None else 0
        position_ids = (torch.arange(inputs_embeds.shape[1]) + seen)[None]
    mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask,
                              past_key_values=past_key_values, position_ids=position_ids)
    hidden_states, rotary = inputs_embeds, self.rotary_emb(inputs_embeds, position_ids=position_ids)
    for layer in self.layers:
        call = layer.forward if layer.gradient_checkpointing else layer
        hidden_states = call(hidden_states, attention_mask=mask, position_ids=position_ids,
                             past_key_values=past_key_values, use_cache=use_cache, position_embeddings=rotary,
                             **kwargs)
    return BaseModelOutputWithPast(last_hidden_state=self.norm(hidden_states), past_key_values=past_key_values)
"""
SUM_WITHOUT_AUTOCAST = MLP.format(
    "with torch.autocast(x.device.type, enabled=False):\n"
    "        return self.down_proj(hidden.to(self.down_proj.weight.dtype)).to(x.dtype)"
)
WEIGHT_KEPT = MLP.format(
    "if not hasattr(self, 'kept'):\n        self.kept = self.down_proj.weight.clone()\n"
    "    return nn.functional.linear(hidden, self.kept)"
)
WEIGHT_READ_PAST_ITS_LAYER = MLP.format("return nn.functional.linear(hidden, self.down_proj.weight)")
LAYER_THAT_CANNOT_BE_CHECKPOINTED = """
@config.replace_class("LlamaDecoderLayer")
class PatchedDecoderLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = LlamaAttention(config=config, layer_idx=layer_idx)
        self.mlp = LlamaMLP(config)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden_states, **kwargs):
        hidden_states = hidden_states + self.self_attn(self.input_layernorm(hidden_states), **kwargs)[0]
        return hidden_states + self.mlp(self.post_attention_layernorm(hidden_states))
"""
HEAD = """
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils import can_return_tuple


@config.override_method("LlamaForCausalLM.forward")
{decorator}
def causal_lm_forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None,
                      inputs_embeds=None, labels=None, use_cache=None, logits_to_keep=0, **kwargs):
    {first}
    outputs = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
                         past_key_values=past_key_values, inputs_embeds=inputs_embeds, use_cache=use_cache, **kwargs)
    places = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
    logits = self.lm_head(outputs.last_hidden_state[:, places])
    loss = None
    if labels is not None:
        loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
        {last}
    return CausalLMOutputWithPast(
        loss=loss, logits=logits, past_key_values=outputs.past_key_values,
        hidden_states=outputs.hidden_states, attentions=outputs.attentions,
    )
"""
TUPLED = "@can_return_tuple"
NEVER_A_TUPLE = (
    HEAD.format(decorator="", first="", last="")
    + """
config.drop_decorators("LlamaForCausalLM.forward", "can_return_tuple")
"""
)
LOSS_THAT_TAKES_NO_SCALE = HEAD.format(
    decorator=TUPLED, first="", last="loss.register_hook(torch.ones_like) if loss.requires_grad else None"
)
PADDING_WITHOUT_LABELS = HEAD.format(
    decorator=TUPLED,
    first="if labels is not None and attention_mask is not None:\n"
    "        labels = labels.masked_fill(attention_mask == 0, -100)",
    last="",
)
EMBEDDINGS_CUT_OFF = HEAD.format(
    decorator=TUPLED, first="inputs_embeds = inputs_embeds.detach() if inputs_embeds is not None else None", last=""
)
TWICE = "padded, two forward and two backward passes, num_items_in_batch"
MLP_FORWARD, HEAD_FORWARD = "LlamaMLP.forward", "LlamaForCausalLM.forward"


@pytest.mark.parametrize(
    ("defect", "batch", "target"),
    [
        (ANOTHER_WAY_WITHOUT_GRADIENTS, "packed, checkpointed, reentrant", MLP_FORWARD),
        (LAYER_THAT_CANNOT_BE_CHECKPOINTED, "packed, checkpointed", "LlamaDecoderLayer"),
        (LAYERS_PAST_THEIR_HOOKS, "packed, checkpointed", "LlamaModel.forward"),
        (SUM_IN_THE_DTYPE_OF_THE_INPUT, "packed, autocast to bfloat16", MLP_FORWARD),
        (WEIGHT_KEPT, "packed, after a step", MLP_FORWARD),
        (WEIGHT_READ_PAST_ITS_LAYER, "packed, low-rank adapters", MLP_FORWARD),
        (LOSS_THAT_TAKES_NO_SCALE, TWICE, HEAD_FORWARD),
        (PADDING_WITHOUT_LABELS, TWICE, HEAD_FORWARD),
        (NEVER_A_TUPLE, "packed, return_dict=False", HEAD_FORWARD),
        (EMBEDDINGS_CUT_OFF, "packed, frozen, embeddings trained", HEAD_FORWARD),
    ],
)
@pytest.mark.mostly_slow(1)
def test_what_shows_with_a_tool_of_trainers_alone_is_red(
    work: Workspace, defect: str, batch: str, target: str
) -> None:
    result = compare(work, defect, preamble=WITH_TORCH)
    print(*map(str, result.errors), *result.notes, sep="\n")
    problem = result.errors[0]
    assert f"'{batch}'" in f"{problem.message} {problem.hint}"
    assert f"patch of '{target}'" in f"{problem.message} {problem.hint}"


@pytest.mark.slow
def test_a_right_patch_is_green_with_every_tool(work: Workspace) -> None:
    result = compare(
        work,
        HEAD.format(decorator=TUPLED, first="", last="") + MLP.format("return self.down_proj(hidden)"),
        level="thorough",
    )
    assert result.errors == ()
    assert result.warnings == ()


def test_a_patch_may_choose_what_autocast_leaves_alone(work: Workspace) -> None:
    result = compare(work, SUM_WITHOUT_AUTOCAST, EAGER, WITH_TORCH)
    assert result.errors == ()
    assert "LlamaForCausalLM, packed, autocast to bfloat16, float32: loss" in result.figures
