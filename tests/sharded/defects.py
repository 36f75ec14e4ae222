"""Mistakes that people make in code for several ranks, seeded in generated modules of the zoo."""

from __future__ import annotations

from dataclasses import dataclass

from tests.sharded.sharded_runs import Change

STATE = "from patchgen_core.runtime.parallel import get_parallel_state"
_IMPORT = ("from patchgen_core.ops import OpSlot\n", f"from patchgen_core.ops import OpSlot\n{STATE}\n")


@dataclass(frozen=True)
class Defect:
    """A change of a generated module, and what its red run must tell: ``told`` are parts of the message, and
    ``patch`` is named with the place of its declaration, unless it is empty: ranks may fail where no patch runs.
    ``batches`` are references of builders of toy batches."""

    model: str
    mesh: str
    old: str
    new: str
    told: tuple[str, ...]
    patch: str
    time_limit: float = 60.0
    batches: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        """What to change in the text."""
        return (_IMPORT, (self.old, self.new))


WRAP = "        attention_interface = sequence_parallel_attention(attention_interface)\n"
_OUT = "        attn_output = attn_output.reshape(*input_shape, -1).contiguous()\n"
_ROTARY = "        position_embeddings = self.rotary_emb(hidden_states, position_ids=position_ids)\n"
_SLICE = "        position_embeddings = slice_position_embeddings(position_embeddings)\n"
_MASK = "            inputs_embeds=whole_sequence_like(inputs_embeds),\n"
_REDUCE = """            loss = reduce_loss(
                loss,
                kwargs.get("shift_labels", labels),
                num_items_in_batch=kwargs.get("num_items_in_batch"),
                ignore_index=kwargs.get("ignore_index", -100),
            )
"""
_CALL = "self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)"
_LOSS = f"                loss = {_CALL}\n"
_IN_SP = "        if get_parallel_state().sp_enabled:\n"


def _ulysses(inside: tuple[int, int], outside: tuple[int, int]) -> str:
    """Attention by exchanges of one's own, given which dimensions they take."""
    return f"""        from patchgen_core.runtime.parallel import gather_heads_scatter_seq, gather_seq_scatter_heads

        inner = attention_interface

        def attention_interface(module, *states, **kwargs):
            *qkv, mask = states
            output, weights = inner(module, *(gather_seq_scatter_heads(x, *{inside}) for x in qkv), mask, **kwargs)
            return gather_heads_scatter_seq(output, *{outside}), weights
"""


OWN_EXCHANGES = Defect("llama", "sp2", WRAP, _ulysses((2, 1), (2, 1)), (), "LlamaAttention.forward")
"""No defect: what the two with swapped dimensions are meant to be."""
SEQUENCES = {
    "dimensions swapped on the way back": Defect(
        "llama",
        "sp2",
        WRAP,
        _ulysses((2, 1), (1, 2)),
        ("fails: RuntimeError: mat1 and mat2 shapes cannot be multiplied",),
        "LlamaAttention.forward",
    ),
    "dimensions swapped on the way there": Defect(
        "llama",
        "sp2",
        WRAP,
        _ulysses((1, 2), (2, 1)),
        ("heads in dimension 2 of a tensor of shape (2, 6, 5, 40) do not divide",),
        "LlamaAttention.forward",
    ),
    "attention over slices": Defect(
        "llama",
        "sp2",
        WRAP,
        "",
        (
            "LlamaForCausalLM cannot split sequences: LlamaAttention ('model.layers.0.self_attn') exchanges nothing",
            "in check_attention",
        ),
        "LlamaAttention.forward",
    ),
    "attention over slices on one rank": Defect(
        "llama",
        "sp2",
        WRAP,
        f"        if get_parallel_state().sp_rank == 0:\n    {WRAP}",
        ("rank 1 fails: RuntimeError: The size of tensor a (5)", "in eager_attention_forward"),
        "LlamaAttention.forward",
        8,
    ),
    "heads in another order": Defect(
        "llama",
        "sp2",
        _OUT,
        f"{_IN_SP}            attn_output = attn_output.flip(2)\n{_OUT}",
        ("The first output that differs is from 'model.layers.0.self_attn.o_proj' (Linear), right after",),
        "LlamaAttention.forward",
    ),
    "keys without gradients": Defect(
        "llama",
        "sp2",
        WRAP,
        f"{WRAP}{_IN_SP}            key_states = key_states.detach()\n",
        (
            "gradient of model.layers.0.self_attn.k_proj.weight is missing",
            "for the output of 'model.layers.1.self_attn.k_proj' (Linear)",
        ),
        "LlamaAttention.forward",
    ),
    "positions of the slice": Defect(
        "llama",
        "sp2",
        f"{_ROTARY}{_SLICE}",
        _ROTARY.replace("=position_ids)", "=position_ids[..., : hidden_states.shape[1]])"),
        (
            "logits of 'padded' on rank 1,",
            "The first output that differs is from 'model.layers.0.self_attn.o_proj' (Linear)",
        ),
        "LlamaModel.forward",
    ),
    "position embeddings of the whole": Defect(
        "llama",
        "sp2",
        _SLICE,
        "",
        ("fails: RuntimeError: The size of tensor a (5)", "in apply_rotary_pos_emb"),
        "LlamaModel.forward",
    ),
    "mask of the slice": Defect(
        "llama",
        "sp2",
        _MASK,
        "            inputs_embeds=inputs_embeds,\n",
        ("fails: RuntimeError:", "in _attend"),
        "LlamaModel.forward",
    ),
    "no mask": Defect(
        "llama",
        "sp2",
        "                attention_mask=causal_mask,\n",
        "                attention_mask=None,\n",
        (
            "logits of 'packed' on rank",
            "The first output that differs is from 'model.layers.0.self_attn.o_proj' (Linear)",
        ),
        "LlamaModel.forward",
    ),
    "loss of the slice": Defect(
        "llama",
        "sp2",
        _REDUCE,
        "            pass\n",
        (
            "loss of 'packed' on rank 0",
            "0.5 x (1 / sp_size or the number of ranks) what one process has: gradient of",
            "The first output that differs is from the model itself",
        ),
        "LlamaForCausalLM.forward",
    ),
    "loss reduced twice": Defect(
        "llama",
        "sp2",
        _REDUCE,
        _REDUCE + _REDUCE,
        (
            "2 x (sp_size or the number of ranks) what one process has: loss of '",
            "The first output that differs is from the model itself",
        ),
        "LlamaForCausalLM.forward",
    ),
    "mean of the ranks' means": Defect(
        "llama",
        "sp2",
        _LOSS,
        '                items = kwargs.pop("num_items_in_batch", None)\n'
        + _LOSS
        + "                if get_parallel_state().sp_enabled and items:\n"
        '                    kwargs["num_items_in_batch"] = items\n'
        "                    loss = loss * (labels.numel() / 2 / items)\n",
        ("loss of 'padded' on rank 0", "right after 'lm_head', where both agree"),
        "LlamaForCausalLM.forward",
    ),
    "mean weighed by tokens": Defect(
        "llama",
        "sp2",
        '                kwargs.get("shift_labels", labels),\n',
        "                input_ids,\n",
        ("mean loss of 'padded' on rank 0", "The first output that differs is from the model itself"),
        "LlamaForCausalLM.forward",
    ),
    "labels shifted in the slice": Defect(
        "llama",
        "sp2",
        _LOSS,
        f'                kwargs.pop("shift_labels", None)\n{_LOSS}',
        ("loss of 'packed' on rank 0", "right after 'lm_head', where both agree"),
        "LlamaForCausalLM.forward",
    ),
    "padding learned": Defect(
        "llama",
        "sp2",
        _LOSS,
        "                if get_parallel_state().sp_enabled:\n"
        '                    kwargs["shift_labels"] = labels.masked_fill(labels == -100, 0)\n' + _LOSS,
        ("loss of 'padded' on rank 0", "right after 'lm_head', where both agree"),
        "LlamaForCausalLM.forward",
    ),
}

_DUMMY = "        return (output.pooler_output * 0.0).sum()\n"
_NEEDS = "    return model.training and torch.distributed.is_available() and torch.distributed.is_initialized()\n"
_DOWN = "        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))\n"
_RETURN = _DOWN + "        return down_proj\n"
_IN_DP = "        if get_parallel_state().fsdp_enabled:\n            "
PARAMETERS = {
    "tower only where there are pictures": Defect(
        "qwen2_vl",
        "fsdp2",
        _NEEDS,
        "    return False\n",
        ("Qwen2VLForConditionalGeneration", "on 2 ranks"),
        "",
        10,
    ),
    "dummy forward that counts": Defect(
        "qwen2_vl",
        "fsdp2",
        _DUMMY,
        _DUMMY.replace("0.0", "1.0"),
        ("logits of 'packed' on rank 1", "The first output that differs is from"),
        "Qwen2VisionTransformerPretrainedModel.dummy_forward",
    ),
    "dummy forward without gradients": Defect(
        "qwen2_vl",
        "fsdp2",
        _DUMMY,
        _DUMMY.replace(".sum()", ".sum().detach()"),
        ("Qwen2VLForConditionalGeneration", "on 2 ranks"),
        "",
        10,
    ),
    "loss times dp_size": Defect(
        "llama",
        "fsdp2",
        _REDUCE,
        _REDUCE + "            loss = loss * get_parallel_state().dp_size\n",
        (
            "2 x (dp_size or the number of ranks) what one process has: loss of",
            "The first output that differs is from the model itself",
        ),
        "LlamaForCausalLM.forward",
    ),
    "loss added up over all ranks": Defect(
        "llama",
        "fsdp2",
        _REDUCE,
        _REDUCE + "            if get_parallel_state().fsdp_enabled:\n"
        "                torch.distributed.all_reduce(loss.data)\n",
        ("loss of 'p", "right after 'lm_head', where both agree"),
        "LlamaForCausalLM.forward",
    ),
    "something kept from one run to the next": Defect(
        "llama",
        "fsdp2",
        _RETURN,
        f"{_DOWN}{_IN_DP}self.calls = getattr(self, 'calls', 0) + 1\n"
        "            down_proj = down_proj * (1 + self.calls / 99)\n"
        "        return down_proj\n",
        (
            "running the same batches twice gives different bits on rank 0: loss of 'padded'",
            "The first output that differs is from 'model.layers.0.mlp' (LlamaMLP)",
        ),
        "LlamaMLP.forward",
    ),
    "layer left out on one rank": Defect(
        "llama",
        "fsdp2",
        _RETURN,
        f"        if get_parallel_state().dp_rank == 1:\n            return x * 1.0\n{_RETURN}",
        ("LlamaForCausalLM", "on 2 ranks"),
        "",
        10,
    ),
}
