"""Experts whose parameters are fused: ``gate_up_proj`` and ``down_proj``, and the loop over those that got tokens."""

from __future__ import annotations

import ast
import copy
import textwrap
from collections.abc import Iterator

from patchgen_core.authoring.new.expressions import ShortFunctional, parameters_of
from patchgen_core.authoring.new.module import UpstreamSource
from patchgen_core.authoring.new.patches import BALANCE, EXPERTS, Finding, Unpatched, patch_forward
from patchgen_core.syntax.nodes import Function, without_docstring

_LOOP = """
final_hidden_states = torch.zeros_like(hidden_states)
with torch.no_grad():
    expert_mask = F.one_hot(top_k_index, num_classes=self.num_experts + 1)
    expert_mask = expert_mask.permute(2, 1, 0)
    expert_hit = torch.greater(expert_mask.sum(dim=(-1, -2)), 0).nonzero()
for expert_idx in expert_hit:
    expert_idx = expert_idx[0]
    if expert_idx == self.num_experts:
        continue
    top_k_pos, token_idx = torch.where(expert_mask[expert_idx])
    current_state = hidden_states[token_idx]
    gate, up = F.linear(current_state, self.gate_up_proj[expert_idx]).chunk(2, dim=-1)
    current_hidden_states = self.act_fn(gate) * up
    current_hidden_states = F.linear(current_hidden_states, self.down_proj[expert_idx])
    current_hidden_states = current_hidden_states * top_k_weights[token_idx, top_k_pos, None]
    final_hidden_states.index_add_(0, token_idx, current_hidden_states.to(final_hidden_states.dtype))
return final_hidden_states
"""
_BALANCE = """
if gate_logits is None or not isinstance(gate_logits, tuple):
    return 0
compute_device = gate_logits[0].device
histc_dtype = torch.float32 if compute_device.type in ('cpu', 'mps') else torch.int32
tokens_per_expert_sum = torch.zeros(num_experts, dtype=torch.float32, device=compute_device)
router_prob_sum = torch.zeros(num_experts, dtype=torch.float32, device=compute_device)
total_rows = 0.0
if attention_mask is not None:
    flat_mask = attention_mask.reshape(-1).to(device=compute_device, dtype=torch.float32)
for layer_gate in gate_logits:
    routing_weights = F.softmax(layer_gate.to(compute_device), dim=-1)
    _, selected_experts = torch.topk(routing_weights, top_k, dim=-1)
    if attention_mask is None:
        tokens_per_expert_sum = tokens_per_expert_sum + torch.histc(
            selected_experts.reshape(-1).to(histc_dtype), bins=num_experts, min=0, max=num_experts
        )
        router_prob_sum = router_prob_sum + routing_weights.float().sum(dim=0)
        total_rows = total_rows + routing_weights.shape[0]
    else:
        tokens_per_expert_sum = tokens_per_expert_sum + torch.zeros(
            num_experts, dtype=torch.float32, device=compute_device
        ).scatter_add_(0, selected_experts.reshape(-1), flat_mask.repeat_interleave(top_k))
        router_prob_sum = router_prob_sum + (routing_weights.float() * flat_mask.unsqueeze(-1)).sum(dim=0)
        total_rows = total_rows + flat_mask.sum()
tokens_per_expert = tokens_per_expert_sum / total_rows
router_prob_per_expert = router_prob_sum / total_rows
overall_loss = torch.sum(tokens_per_expert * router_prob_per_expert.unsqueeze(0))
return overall_loss * num_experts
"""
BALANCE_FUNCTION = "load_balancing_loss_func"
_CHANGE = "all experts in one grouped matrix multiply where a kernel is bound"


def find_experts(upstream: UpstreamSource) -> Iterator[Finding]:
    """The classes of a module that hold experts."""
    for cls, text in upstream.forwards():
        if not cls.name.endswith("Experts"):
            continue
        names, own = parameters_of(text.node), ast.unparse(cls)
        if "gate_up_proj" not in own or "down_proj" not in own:
            reason = "they are not on the fused layout of gate_up_proj and down_proj"
            yield Unpatched(cls.name, reason, "experts")
        elif len(names) != 3 or _shape(text.node, names) != _LOOP_SHAPE:
            yield Unpatched(cls.name, _why_not(text.node), "experts")
        else:
            call = f"{', '.join(names)}, self.gate_up_proj, self.down_proj, self.act_fn"
            lines = [f"if {EXPERTS.name}.has_kernel:", f"    return {EXPERTS.name}({call})"]
            yield patch_forward(cls, "Op slot for the experts", EXPERTS, _CHANGE, text, lines)


def balances(upstream: UpstreamSource) -> bool:
    """Whether a module's load-balancing loss is the one that the slot computes."""
    function = upstream.functions.get(BALANCE_FUNCTION)
    return function is not None and _shape(function, parameters_of(function)[:4]) == _BALANCE_SHAPE


def find_other_balance(upstream: UpstreamSource) -> Iterator[Unpatched]:
    """A load-balancing loss that is another one."""
    if BALANCE_FUNCTION in upstream.functions and not balances(upstream):
        reason = f"its formula is not the one of {BALANCE.op}/{BALANCE.variant}"
        yield Unpatched(BALANCE_FUNCTION, reason, "load balancing")


def _shape(function: Function, names: tuple[str, ...]) -> str:
    """A function's tree with its names numbered, so that those of locals and parameters do not count."""
    placeholders = {name: f"p{number}" for number, name in enumerate(names)}
    body = [_NumberedNames(placeholders).visit(copy.deepcopy(statement)) for statement in without_docstring(function)]
    return "\n".join(ast.unparse(statement) for statement in body)


class _NumberedNames(ShortFunctional):
    def __init__(self, placeholders: dict[str, str]) -> None:
        self._placeholders = placeholders

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if isinstance(node.ctx, ast.Store):
            self._placeholders.setdefault(node.id, f"v{len(self._placeholders)}")
        return ast.Name(self._placeholders.get(node.id, node.id), node.ctx)


def _shape_of(text: str, *names: str) -> str:
    function = ast.parse(f"def f({', '.join(names)}):\n{textwrap.indent(text, '    ')}").body[0]
    assert isinstance(function, ast.FunctionDef)
    return _shape(function, names)


_LOOP_SHAPE = _shape_of(_LOOP, "hidden_states", "top_k_index", "top_k_weights")
_BALANCE_SHAPE = _shape_of(_BALANCE, "gate_logits", "num_experts", "top_k", "attention_mask")


def _why_not(function: Function) -> str:
    text = ast.unparse(function)
    if "_bias" in text:
        return "they have biases, which moe_experts/standard does not take"
    if "@ self.gate_up_proj" in text or "bmm" in text or "torch.matmul" in text:
        return "their parameters have inputs first, but moe_experts/standard needs outputs first"
    if "_apply_gate" in text:
        return "they have a gate of their own (_apply_gate), but moe_experts/standard computes act(gate) * up"
    return "their loop is not the one of moe_experts/standard"
