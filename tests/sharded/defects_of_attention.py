"""Mistakes that people make in attention that is not Llama's: sinks, windows, values of another width, an indexer."""

from __future__ import annotations

from tests.sharded.defects import Defect

_WRAP = "        attention_interface = sequence_parallel_attention(attention_interface)\n"
_MASK = "            inputs_embeds=whole_sequence_like(inputs_embeds),\n"
_WINDOW = "        mask_function = create_causal_mask if self.config.sliding_window is None else create_sliding"
_LAYER_MASK = "                attention_mask=causal_mask_mapping[self.config.layer_types[i]],\n"
_EMBEDDINGS = (
    "            position_embeddings[layer_type] = slice_position_embeddings(position_embeddings[layer_type])\n"
)
_FEATURES = "            own_features = select_features(image_features.flatten(0, 1), is_placeholder)[None]\n"
_BLOCKS = " " * 16 + "block_sequence_ids = get_block_sequence_ids_for_mask(token_type_ids, device="
_KEYS = "        k = gather_outputs(k, 1)\n"
_ROWS = "        attention_mask = slice_input_tensor(attention_mask, 1, padding=False)\n"
_CHOICE = "        return gather_outputs(index_scores.topk(topk, dim=-1).indices.to(torch.int32), 1)\n"
_IN_SP = "get_parallel_state().sp_enabled"
_FIRST = "The first output that differs is from"


def _own_attention(
    sinks: str = "None",
    states: str = "(exchange(x, 2, 1) for x in (query, key, value))",
    result: str = "output",
) -> str:
    """Attention by exchanges of one's own: the sinks, the states and the result that it makes of them."""
    return f"""        from types import SimpleNamespace

        from patchgen_core.runtime.parallel import gather_heads_scatter_seq, gather_seq_scatter_heads

        inner, exchange, groups = attention_interface, gather_seq_scatter_heads, self.num_key_value_groups

        def attention_interface(module, query, key, value, mask, **kwargs):
            if not get_parallel_state().sp_enabled:
                return inner(module, query, key, value, mask, **kwargs)
            view = SimpleNamespace(num_key_value_groups=groups, training=module.training, sinks={sinks})
            query, key, value = {states}
            output, weights = inner(view, query, key, value, mask, **kwargs)
            return gather_heads_scatter_seq({result}, 2, 1), weights
"""


_OWN_SINKS = "module.sinks.chunk(2)[get_parallel_state().sp_rank]"
_SUMMED_TWICE = f"(2 * {_OWN_SINKS} - {_OWN_SINKS}.detach())"
_PADDED = "(exchange(x, 2, 1) for x in (query, key, nn.functional.pad(value, (0, key.shape[-1] - value.shape[-1]))))"


def _packed(first: str, second: str) -> str:
    """Keys and values in one exchange, and their widths in an order."""
    both = "exchange(torch.cat((key, value), dim=-1), 2, 1)"
    return f"(exchange(query, 2, 1), *{both}.split(({first}.shape[-1], {second}.shape[-1]), dim=-1))"


OWN_ATTENTION = {
    "sinks": Defect("gpt_oss", "sp2", _WRAP, _own_attention(_OWN_SINKS), (), ""),
    "widths": Defect("deepseek_v3", "sp2", _WRAP, _own_attention(states=_packed("key", "value")), (), ""),
    "padding": Defect(
        "deepseek_v3", "sp2", _WRAP, _own_attention(states=_PADDED, result="output[..., : module.v_head_dim]"), (), ""
    ),
}
"""No defects: what those with exchanges of one's own are meant to be."""

AT_ONCE = {
    "sinks of all heads": Defect(
        "gpt_oss",
        "sp2",
        _WRAP,
        _own_attention("module.sinks"),
        ("fails: RuntimeError: Sizes of tensors must match", "in eager_attention_forward"),
        "GptOssAttention.forward",
    ),
    "window lost": Defect(
        "mistral",
        "sp2",
        _WINDOW,
        _WINDOW.replace(" is None", f" is None or {_IN_SP}"),
        ("logits of 'padded' on rank 1", f"{_FIRST} 'model.layers.0.self_attn.o_proj' (Linear)"),
        "MistralModel.forward",
    ),
    "widths of keys and values swapped": Defect(
        "deepseek_v3",
        "sp2",
        _WRAP,
        _own_attention(states=_packed("value", "key")),
        ("fails: RuntimeError: Expected size for first two dimensions", "in eager_attention_forward"),
        "DeepseekV3Attention.forward",
    ),
    "mask of the slice in front of latents": Defect(
        "deepseek_v3",
        "sp2",
        _MASK,
        "            inputs_embeds=inputs_embeds,\n",
        ("fails: RuntimeError: an attention mask of shape", "in _check_mask"),
        "DeepseekV3Attention.forward",
    ),
}
"""Red after a moment, or in a model that is there: these are tested with every change."""

ATTENTION = {
    "window lost in one of two kinds of layer": Defect(
        "gpt_oss",
        "sp2",
        _LAYER_MASK,
        _LAYER_MASK.replace("[self", f"['full_attention' if {_IN_SP} else self"),
        ("logits of 'rows' on rank 1", f"{_FIRST} 'model.layers.0.self_attn.o_proj' (Linear)"),
        "GptOssModel.forward",
    ),
    "sinks of the first rank's heads": Defect(
        "gpt_oss",
        "sp2",
        _WRAP,
        _own_attention("module.sinks.chunk(2)[0]"),
        ("logits of 'rows' on rank", f"{_FIRST} 'model.layers.0.self_attn.o_proj' (Linear)"),
        "GptOssAttention.forward",
    ),
    "sinks without gradients": Defect(
        "gpt_oss",
        "sp2",
        _WRAP,
        _own_attention(f"{_OWN_SINKS}.detach()"),
        ("gradient of model.layers.0.self_attn.sinks is missing",),
        "",
    ),
    "gradients of sinks added up twice": Defect(
        "gpt_oss",
        "sp2",
        _WRAP,
        _own_attention(_SUMMED_TWICE),
        ("2 x (sp_size or the number of ranks) what one process has: gradient of model.layers.1.self_attn.sinks",),
        "GptOssAttention.forward",
    ),
    "values padded and cut at the wrong end": Defect(
        "deepseek_v3",
        "sp2",
        _WRAP,
        _own_attention(states=_PADDED, result="output[..., -module.v_head_dim :]"),
        ("logits of 'padded' on rank", f"{_FIRST} 'model.layers.0.self_attn.o_proj' (Linear)"),
        "DeepseekV3Attention.forward",
    ),
    "embeddings of one kind of layer": Defect(
        "gemma3",
        "sp2",
        _EMBEDDINGS,
        f"            if layer_type == 'full_attention':\n    {_EMBEDDINGS}",
        ("fails: RuntimeError: The size of tensor a", "in apply_rotary_pos_emb"),
        "",
    ),
    "features of the first placeholders, in one piece": Defect(
        "gemma3",
        "sp2",
        _FEATURES,
        "            own_features = image_features.flatten(0, 1)[: is_placeholder.sum()][None]\n",
        ("logits of 'pictures' on rank 1", f"{_FIRST} 'model.language_model.layers.0.input_layernorm'"),
        "Gemma3Model.forward",
    ),
    "pictures' blocks of the slice": Defect(
        "gemma3",
        "sp2",
        _BLOCKS,
        _BLOCKS.replace("_ids, ", "_ids.chunk(2, 1)[get_parallel_state().sp_rank], "),
        ("logits of 'pictures' on rank 0", f"{_FIRST} 'model.language_model.layers.0.self_attn.o_proj' (Linear)"),
        "Gemma3Model.forward",
    ),
    "indexer among its slice": Defect(
        "glm_moe_dsa",
        "sp2",
        _KEYS + _ROWS,
        "        attention_mask = slice_input_tensor(attention_mask, 1, padding=False)\n"
        "        attention_mask = slice_input_tensor(attention_mask, 2, padding=False)\n",
        ("logits of 'packed' on rank 1", f"{_FIRST} 'model.layers.0.self_attn.o_proj' (Linear)"),
        "GlmMoeDsaIndexer.forward",
    ),
    "indexer with the mask of the first rank": Defect(
        "glm_moe_dsa",
        "sp2",
        _ROWS,
        "        attention_mask = attention_mask[:, : hidden_states.shape[1]]\n",
        ("logits of 'packed' on rank", f"{_FIRST} 'model.layers.0.self_attn.indexer' (GlmMoeDsaIndexer)"),
        "GlmMoeDsaIndexer.forward",
    ),
    "choice of the slice": Defect(
        "glm_moe_dsa",
        "sp2",
        _CHOICE,
        _CHOICE.replace("gather_outputs(", "(").replace(", 1)", ")"),
        ("fails: RuntimeError: The size of tensor a", "The patch of 'GlmMoeDsaAttention.forward' was running"),
        "",
    ),
}
