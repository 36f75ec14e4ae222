"""A patch that computes something else is named, with the line that does it, be it wrong forward or backward."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from patchgen_core.checks.parity.divergence import find_divergence, find_unfinished
from patchgen_core.models.model_run import GRADIENT, Run
from patchgen_core.models.run_comparison import ComparedRuns, compare_runs
from tests.checks.parity_runs import NORM, QWEN2_5_VL, WHOLE, compare, edited, line_of
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

MLP = """
@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    gate, up = self.gate_proj(x), self.up_proj(x)
    return self.down_proj(self.act_fn(gate) * up)
"""
ROTARY = """
@config.replace_function("apply_rotary_pos_emb")
def rotary(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed
"""
ANGLES = """
@config.override_method("LlamaRotaryEmbedding.forward")
def angles_forward(self, x, position_ids):
    frequencies = position_ids[:, :, None].float() * self.inv_freq.float()
    angles = torch.cat((frequencies, frequencies), dim=-1)
    cos, sin = angles.cos() * self.attention_scaling, angles.sin() * self.attention_scaling
    return cos.to(x.dtype), sin.to(x.dtype)
"""
LAYER = """
@config.override_method("LlamaDecoderLayer.forward")
def layer_forward(self, hidden_states, attention_mask=None, position_embeddings=None, **kwargs):
    residual = hidden_states
    hidden_states = self.input_layernorm(hidden_states)
    hidden_states, _ = self.self_attn(
        hidden_states=hidden_states,
        attention_mask=attention_mask,
        position_embeddings=position_embeddings,
        **kwargs,
    )
    hidden_states = residual + hidden_states
    residual = hidden_states
    hidden_states = self.post_attention_layernorm(hidden_states)
    hidden_states = self.mlp(hidden_states)
    return residual + hidden_states
"""
CAUSAL = """
@config.override_method("LlamaForCausalLM.forward")
def causal_forward(self, input_ids=None, labels=None, logits_to_keep=0, **kwargs):
    outputs = self.model(input_ids=input_ids, **kwargs)
    places = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
    logits = self.lm_head(outputs.last_hidden_state[:, places])
    loss = None
    if labels is not None:
        loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
    return CausalLMOutputWithPast(
        loss=loss,
        logits=logits,
        past_key_values=outputs.past_key_values,
        hidden_states=outputs.hidden_states,
        attentions=outputs.attentions,
    )
"""
HELPER = """
@config.add_helper
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2
"""
ALL = NORM + MLP + ROTARY + ANGLES + LAYER + CAUSAL
FORWARD = {
    "norm without epsilon": (ALL, "+ self.variance_epsilon", "+ 1e-2", "LlamaRMSNorm.forward", "1e-2"),
    "swapped gate and up": (ALL, "self.act_fn(gate) * up", "self.act_fn(up) * gate", "LlamaMLP.forward", "(up)"),
    "a sign in the rotary embedding": (ALL, "(k * cos) +", "(k * cos) -", "apply_rotary_pos_emb", "k_embed ="),
    "a second output": (ALL, "sin.to(x.dtype)", "-sin.to(x.dtype)", "LlamaRotaryEmbedding.forward", "-sin"),
    "no residual": (ALL, "= residual + hid", "= hid", "LlamaDecoderLayer.forward", "hidden_states = hid"),
    "residual of the wrong value": (
        ALL, "    residual = hidden_states\n    hidden_states = self.post", "    hidden_states = self.post",
        "LlamaDecoderLayer.forward", "return residual + hidden",
    ),
    "labels shifted twice": (
        ALL, "labels=labels, v", "labels=nn.functional.pad(labels, (0, 1), value=-100)[..., 1:].contiguous(), v",
        "LlamaForCausalLM.forward", "labels",
    ),
    "scaled logits": (ALL, "self.lm_head(outputs.", "2 * self.lm_head(outputs.", "LlamaForCausalLM.forward", "2 *"),
    "a mask that is left out": (
        ALL, "attention_mask=attention_mask,", "attention_mask=None,", "LlamaDecoderLayer.forward", "",
    ),
    "norm that writes into the residual": (
        ALL, "    hidden_states = hidden_states * torch.rsqrt",
        "    factor = torch.rsqrt(variance + self.variance_epsilon)\n    if not torch.is_grad_enabled():\n"
        "        return self.weight * hidden_states.mul_(factor)\n    hidden_states = hidden_states * torch.rsqrt",
        "LlamaRMSNorm.forward", ".mul_",
    ),
}  # fmt: skip
BACKWARD = {
    "detached gate": (ALL, "self.act_fn(gate)", "self.act_fn(gate).detach()", "LlamaMLP.forward", ".detach()"),
    "detached residual": (ALL, "return residual +", "return residual.detach() +", "LlamaDecoderLayer.forward", ".det"),
    "detached keys": (ALL, "(k * cos)", "(k.detach() * cos)", "apply_rotary_pos_emb", ".detach()"),
    "norm whose weight learns nothing": (ALL, "self.weight *", "self.weight.detach() *", "LlamaRMSNorm.forward", ".d"),
    "norm whose input gets too much": (
        HELPER + ALL, "= hidden_states * torch.r", "= Scaled.apply(hidden_states) * torch.r",
        "LlamaRMSNorm.forward", "Scaled",
    ),
    "rotary embedding with a wrong backward": (
        HELPER + ALL, "(q * cos)", "(Scaled.apply(q) * cos)", "apply_rotary_pos_emb", "Scaled",
    ),
    "MLP with a wrong backward": (
        HELPER + ALL, "self.act_fn(gate) * up)", "Scaled.apply(self.act_fn(gate) * up))", "LlamaMLP.forward", "Scaled",
    ),
    "layer with a wrong backward": (
        HELPER + ALL, "return residual + hidden_states", "return residual + Scaled.apply(hidden_states)",
        "LlamaDecoderLayer.forward", "Scaled",
    ),
    "logits with a wrong backward": (
        HELPER + ALL, "logits = self.lm_head(outputs.last_hidden_state[:, places])",
        "logits = self.lm_head(Scaled.apply(outputs.last_hidden_state))", "LlamaForCausalLM.forward", "Scaled",
    ),
}  # fmt: skip
CASES = {**FORWARD, **BACKWARD}
RAISING = {
    "where the input has another width": (
        NORM, "return self.weight * hidden_states", "return variance * hidden_states[..., :1]", "LlamaRMSNorm.forward",
    ),
    "for places of which the logits are asked for": (
        CAUSAL, "    places = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep",
        "    places = slice(-logits_to_keep, None)", "LlamaForCausalLM.forward",
    ),
    "in the patch": (MLP, "(gate) * up", "(gate) * up.view(7)", "LlamaMLP.forward"),
    "on the way back, of what was written over": (
        MLP, "    return self.down_proj(self.act_fn(gate) * up)",
        "    shown = self.down_proj(self.act_fn(gate) * up)\n    up.mul_(2)\n    return shown", "LlamaMLP.forward",
    ),
}  # fmt: skip


def test_the_right_patches_agree(work: Workspace) -> None:
    assert compare(work, HELPER + ALL).errors == ()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.mostly_slow(1)
def test_the_patch_to_look_at_is_named_first_with_its_line(work: Workspace, name: str) -> None:
    text, right, wrong, target, shown = CASES[name]
    assert text.count(right) == 1
    verdict = compare(work, text.replace(right, wrong))
    first = verdict.errors[0]
    assert first.target == target
    direction = "going backward in" if name in BACKWARD else "eager in"
    assert direction in first.message
    assert first.message.endswith(f"look at the patch of '{target}'")
    assert first.location is not None
    kind = "replace_function" if "_" in target else "override_method"
    assert first.location.line == line_of(work, f'@config.{kind}("{target}"')
    assert f"> {first.location.line:5} | @config" in first.excerpt
    assert first.generated is not None
    assert shown in first.generated.text
    numbers = [int(line.split("|")[0].strip("> ")) for line in first.generated.text.splitlines() if "|" in line]
    lines = Path(first.generated.location.file).read_text(encoding="utf-8").splitlines()
    assert all(lines[n - 1] in first.generated.text for n in numbers)


@pytest.mark.parametrize("name", RAISING)
@pytest.mark.mostly_slow(2)
def test_error_is_told_at_the_patch_that_it_comes_of(work: Workspace, name: str) -> None:
    text, right, wrong, target = RAISING[name]
    assert text.count(right) == 1
    other = NORM if text is MLP else MLP
    problem = compare(work, other + ROTARY + text.replace(right, wrong) + LAYER).errors[0]
    assert "the patched model raises " in problem.message
    assert problem.target == target
    assert problem.location is not None
    assert problem.location.line == line_of(work, f'@config.override_method("{target}"')


def test_of_two_patches_in_a_module_the_one_that_did_not_run_while_models_agreed_is_named(work: Workspace) -> None:
    """Only in evaluation does the method run that stands behind the right one."""
    text = MLP.replace("    gate, up", "    if not self.training:\n        return self.mix(x)\n    gate, up")
    text += """
@config.override_method("LlamaMLP.mix", add=True)
def mix(self, x):
    return self.down_proj(self.act_fn(self.gate_proj(x)) + self.up_proj(x))
"""
    problem = compare(work, text).errors[0]
    assert problem.message.endswith("look at the patch of 'LlamaMLP.mix'")
    assert "Other patches that may be the cause: LlamaMLP.forward" in problem.hint


@pytest.mark.slow
def test_generate_that_is_given_what_a_patch_does_not_take_is_told_at_that_one(work: Workspace) -> None:
    lacking = {
        "    mm_token_type_ids: torch.IntTensor | None = None,\n": "",
        "        mm_token_type_ids=mm_token_type_ids,\n": "",
    }
    text = f"import torch\n{edited('Qwen2_5_VLForConditionalGeneration.forward', lacking)}"
    errors = compare(work, text, preamble=QWEN2_5_VL).errors
    (problem,) = [one for one in errors if "`model_kwargs` are not used by the model: ['mm_t" in one.message]
    assert problem.target == "Qwen2_5_VLForConditionalGeneration.forward"


@pytest.mark.slow
def test_the_patch_of_another_head_is_not_named(work: Workspace) -> None:
    sequence = """
@config.override_method("LlamaForSequenceClassification.forward")
def sequence_forward(self, **kwargs):
    output = super().forward(**kwargs)
    output.loss = output.loss * 2
    return output
"""
    verdict = compare(work, CAUSAL + sequence, preamble=WHOLE)
    (problem,) = verdict.errors
    assert problem.message.startswith("LlamaForSequenceClassification differs")
    assert problem.message.endswith("look at the patch of 'LlamaForSequenceClassification.forward'")
    assert "LlamaForCausalLM.forward" not in problem.hint


def test_module_that_gets_no_gradient_is_where_they_part(work: Workspace) -> None:
    verdict = compare(work, MLP.replace("self.act_fn(gate)", "self.act_fn(gate).detach()"))
    assert "The first gradient that differs is for the output of 'model.layers.1.mlp.act_fn'" in verdict.errors[0].hint
    table = next(table for table in verdict.tables if table.title.endswith(": layers, backward"))
    row = next(row for row in table.rows if row[0] == "model.layers.1.mlp.act_fn")
    assert "none instead of" in " ".join(row)


def test_what_is_wrong_once_is_told_although_it_is_right_when_it_runs_again(work: Workspace) -> None:
    once = """
    gate = gate * (1 if hasattr(self, "ran") else 2)
    self.ran = True
    return"""
    verdict = compare(work, MLP.replace("\n    return", once))
    problem, table = verdict.errors[0], verdict.tables[0]
    assert problem.message.endswith("differs from Hugging Face eager, and agrees when the same batch runs again")
    assert "tensors differ, allowed at most" in problem.hint
    assert "The first" not in problem.hint
    assert "Forward agrees" not in problem.hint
    assert {row[-1] for row in table.rows} == {"differs"}


def test_lines_that_did_not_run_are_not_shown(work: Workspace) -> None:
    branch = "    if x.dim() == 7:\n        return x * 7\n    gate, up"
    verdict = compare(work, MLP.replace("    gate, up", branch).replace("(gate) * up", "(gate) + up"))
    shown = verdict.errors[0].generated
    assert shown is not None
    assert "+ up" in shown.text
    assert "x * 7" not in shown.text


def test_a_router_with_wrong_weights_is_where_they_part_and_not_its_experts() -> None:
    right, wrong = torch.ones(3), torch.zeros(3)
    eager = Run(layers={"gate": right, "experts": right}, further_outputs={"gate": {"output[1]": right}})
    patched = Run(layers={"gate": right, "experts": wrong}, further_outputs={"gate": {"output[1]": wrong}})
    assert ComparedRuns(patched, eager, None, 2.0).find_first() == ("gate", "")


def test_module_that_gives_other_places_is_where_they_part_whatever_their_dtype() -> None:
    right, wrong = torch.ones(2), torch.zeros(2)
    places = torch.tensor([1, 300])
    eager = Run(layers={"indexer": places, "attention": right})
    overflowing = Run(layers={"indexer": places.to(torch.uint8), "attention": wrong})
    assert ComparedRuns(overflowing, eager, None, 0.0).find_first() == ("indexer", "")
    short = Run(layers={"indexer": places.to(torch.int16), "attention": wrong})
    assert ComparedRuns(short, eager, None, 0.0).find_first() == ("attention", "indexer")


@pytest.mark.slow
def test_small_difference_that_every_draw_of_parameters_shows_is_red(work: Workspace) -> None:
    text = """
@config.override_method("LlamaMLP.forward")
def forward(self, x):
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x)) * (1 + 4e-6)
"""
    verdict = compare(work, text)
    assert any("LlamaMLP" in problem.message for problem in verdict.errors)
    assert not any("counted as rounding" in note for note in verdict.notes)


def test_module_that_loses_an_output_is_where_it_is_lost_and_not_its_holder() -> None:
    value, other = torch.ones(3), torch.ones(2)
    layers, inputs = {"model.norm": value, "model": value, "": value}, dict.fromkeys(("model.norm", "model", ""), ())
    further = {"model": {"hidden_states[0]": other}, "": {"hidden_states[0]": other}}
    eager = Run({"hidden_states[0]": other}, layers, further, layer_inputs=inputs)
    patched = Run({}, layers, {}, layer_inputs=inputs)
    runs = ComparedRuns(patched, eager, None, 0.0)
    divergence = find_divergence(runs, compare_runs(patched, eager, None, 0.0))
    assert (divergence.places, divergence.after) == (("model",), "model.norm")


def test_module_that_raises_over_what_it_is_given_is_not_where_they_part() -> None:
    value, mask = torch.ones(3), torch.zeros(2, 2)
    inputs = {"": (value,), "layer": (value, mask), "layer.attention": (value, mask)}
    eager = Run(layers={"layer.attention": value}, layer_inputs=inputs)
    given_otherwise = {"": (value,), "layer": (value, mask[:1]), "layer.attention": (value, mask[:1])}
    runs = ComparedRuns(Run(layer_inputs=given_otherwise), eager, None, 0.0)
    divergence = find_unfinished(runs)
    assert divergence is not None
    assert divergence.places == ("",)
    assert find_unfinished(ComparedRuns(Run(layer_inputs=inputs), eager, None, 0.0)) is None


def test_what_the_loss_takes_beside_the_last_output_may_be_where_gradients_part() -> None:
    value, lost = torch.ones(3), f"{GRADIENT}gate.weight"
    layers, inputs = {"gate": value, "experts": value, "": value}, {"gate": (), "experts": (), "": ()}
    gradients = {"gate": value, "experts": value, "": value}
    eager = Run({lost: value}, layers, {"": {"aux_loss": value}}, gradients, {"": {"aux_loss": value}}, inputs)
    patched = Run({lost: 2 * value}, layers, {"": {"aux_loss": value}}, {**gradients, "gate": 2 * value}, {}, inputs)
    runs = ComparedRuns(patched, eager, None, 0.0)
    assert find_divergence(runs, compare_runs(patched, eager, None, 0.0)).places == ("",)


@pytest.mark.parametrize("flags", [{}, {"use_cache": True}], ids=["left out", "another"])
def test_module_that_is_not_given_a_flag_of_upstreams_is_not_where_they_part(flags: dict[str, bool]) -> None:
    value, flagged = torch.ones(3), {"": {"use_cache": False}, "model": {"use_cache": False}}
    inputs = {"": (value,), "model": (value,)}
    eager = Run(layers={"model": value}, layer_inputs=inputs, layer_flags=flagged)
    patched = Run(layers={"model": 2 * value}, layer_inputs=inputs, layer_flags={**flagged, "model": flags})
    assert find_divergence(ComparedRuns(patched, eager, None, 0.0), []).places == ("",)
    more = {**flagged, "model": {"use_cache": False, "is_packed": True}}
    patched = Run(layers={"model": 2 * value}, layer_inputs=inputs, layer_flags=more)
    assert find_divergence(ComparedRuns(patched, eager, None, 0.0), []).places == ("model",)


def test_module_that_is_given_fewer_tensors_is_not_where_they_part() -> None:
    value, positions = torch.ones(3), torch.arange(3)
    eager = Run(layers={"attention": value}, layer_inputs={"": (positions,), "attention": (value, positions)})
    patched = Run(layers={"attention": 2 * value}, layer_inputs={"": (positions,), "attention": (value,)})
    assert find_divergence(ComparedRuns(patched, eager, None, 0.0), []).places == ("",)
