"""Mistakes that people make in experts on several ranks, and in the loss that balances them."""

from __future__ import annotations

from tests.sharded.defects import WRAP, Defect

_EXPERTS = "        final_hidden_states = self.experts(hidden_states_reshaped, selected_experts, routing_weights)\n"
_GATE_UP = (
    "            gate, up = nn.functional.linear(current_state, self.gate_up_proj[expert_idx]).chunk(2, dim=-1)\n"
)
_GATE_UP_GRADIENT = "what one process has: gradient of model.layers.1.mlp.experts.gate_up_proj"
_IN_EP = "        if get_parallel_state().ep_enabled:\n            "


def _scaled_gradient(factor: str) -> str:
    """The weight of an expert as it is, with a multiple of its gradient."""
    weight = "            weight = self.gate_up_proj[expert_idx]\n"
    scaled = f"            weight = weight.detach() + (weight - weight.detach()) * {factor}\n"
    return weight + scaled + _GATE_UP.replace("self.gate_up_proj[expert_idx]", "weight")


EXPERTS = {
    "gradients of experts times ep_size": Defect(
        "qwen3_moe",
        "ep2",
        _GATE_UP,
        _scaled_gradient("get_parallel_state().ep_size"),
        (f"2 x (dp_size or ep_size or the number of ranks) {_GATE_UP_GRADIENT}",),
        "Qwen3MoeExperts.forward",
    ),
    "gradients of experts divided by ep_size": Defect(
        "qwen3_moe",
        "ep2",
        _GATE_UP,
        _scaled_gradient("(1 / get_parallel_state().ep_size)"),
        (f"0.5 x (1 / dp_size or ep_size or the number of ranks) {_GATE_UP_GRADIENT}",),
        "Qwen3MoeExperts.forward",
    ),
    "experts in the order of other ranks": Defect(
        "qwen3_moe",
        "ep2",
        _EXPERTS,
        f"{_IN_EP}selected_experts = (selected_experts + 4) % 8\n{_EXPERTS}",
        ("The first output that differs is from 'model.layers.1.mlp.experts' (Qwen3MoeExperts)",),
        "Qwen3MoeExperts.forward",
    ),
    "indices of the rank's own experts": Defect(
        "qwen3_moe",
        "ep2",
        _EXPERTS,
        f"{_IN_EP}selected_experts = selected_experts % 4\n{_EXPERTS}",
        ("The first output that differs is from 'model.layers.1.mlp.experts' (Qwen3MoeExperts)",),
        "Qwen3MoeExperts.forward",
    ),
    "tokens of other ranks' experts dropped": Defect(
        "qwen3_moe",
        "ep2",
        _EXPERTS,
        f"{_IN_EP}is_own = selected_experts // 4 == get_parallel_state().ep_rank\n"
        f"            routing_weights = routing_weights * is_own\n{_EXPERTS}",
        ("The first output that differs is from 'model.layers.1.mlp.experts' (Qwen3MoeExperts)",),
        "Qwen3MoeExperts.forward",
    ),
    "outputs of experts added up twice": Defect(
        "qwen3_moe",
        "ep2",
        _EXPERTS,
        f"{_EXPERTS}{_IN_EP}final_hidden_states = final_hidden_states * get_parallel_state().ep_size\n",
        ("The first output that differs is from 'model.layers.1.mlp' (Qwen3MoeSparseMoeBlock)",),
        "Qwen3MoeExperts.forward",
    ),
    "router without gradients": Defect(
        "qwen3_moe",
        "ep2",
        _EXPERTS,
        f"{_IN_EP}routing_weights = routing_weights.detach()\n{_EXPERTS}",
        ("gradient of model.layers.1.mlp.gate.weight",),
        "Qwen3MoeExperts.forward",
    ),
}

_BALANCE = "            balance = sequence_parallel_load_balancing(balance)\n"
_TOKEN_MASK = 'kwargs.get("token_mask", attention_mask)'
_ADD = "            if labels is not None:\n                loss += self.router_aux_loss_coef"
_HEAD = "Qwen3MoeForCausalLM.forward"
_ACROSS = """        group = get_parallel_state().ep_group
        from patchgen_core.runtime.parallel import gather_heads_scatter_seq, gather_seq_scatter_heads

        inner = attention_interface

        def attention_interface(module, *states, **kwargs):
            *qkv, mask = states
            output, weights = inner(
                module, *(gather_seq_scatter_heads(x, 2, 1, group=group) for x in qkv), mask, **kwargs
            )
            return gather_heads_scatter_seq(output, 2, 1, group), weights
"""
BALANCE = {
    "balance of the slice": Defect(
        "qwen3_moe",
        "sp2",
        _BALANCE,
        "            if get_parallel_state().sp_enabled and attention_mask is not None:\n"
        "                attention_mask = attention_mask.chunk(2, 1)[get_parallel_state().sp_rank]\n",
        ("loss of 'packed' on rank", "The first output that differs is from the model itself"),
        _HEAD,
    ),
    "padding balanced": Defect(
        "qwen3_moe",
        "sp2",
        _TOKEN_MASK,
        "attention_mask",
        ("loss of 'packed' on rank 0", "right after 'lm_head', where both agree"),
        _HEAD,
    ),
    "balance that only its own rank learns from": Defect(
        "qwen3_moe",
        "sp2",
        _ADD,
        "            share = aux_loss / get_parallel_state().sp_size\n"
        f"            aux_loss = aux_loss.detach() + (share - share.detach())\n{_ADD}",
        ("gradient of model.layers.1.mlp.gate.weight",),
        _HEAD,
    ),
    "gradients of experts times ep_size, with sequences split": Defect(
        "qwen3_moe",
        "ep2xsp2",
        _GATE_UP,
        _scaled_gradient("get_parallel_state().ep_size"),
        (f"2 x (dp_size or sp_size or ep_size) {_GATE_UP_GRADIENT}",),
        "Qwen3MoeExperts.forward",
    ),
    "sequences exchanged between ranks of experts": Defect(
        "qwen3_moe", "ep2xsp2", WRAP, _ACROSS, ("Qwen3MoeForCausalLM",), "Qwen3MoeAttention.forward", 20
    ),
}
