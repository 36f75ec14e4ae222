"""Parity with other values of the fields of a configuration that patches read: defects that no toy has by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers

from patchgen_core.checks.parity.changed_configs import why_declined
from tests.checks.parity_runs import PREAMBLE, WHOLE, compare, edited
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

BIAS_TWICE = """
@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    gate = self.gate_proj(x)
    if self.gate_proj.bias is not None:
        gate = gate + self.gate_proj.bias
    return self.down_proj(self.act_fn(gate) * self.up_proj(x))
"""
SILU_ALONE = """
@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))
"""
ASKS_FOR_SILU = """
@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    if self.config.hidden_act != "silu":
        raise ValueError(f"made for silu, not {self.config.hidden_act}")
    return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))
"""
NO_ATTENTION_FACTOR = """
@config.override_method("LlamaRotaryEmbedding.forward")
def rotary_forward(self, x, position_ids):
    angles = position_ids[:, :, None].float() @ self.inv_freq[None, None, :].float()
    both = torch.cat((angles, angles), dim=-1)
    return both.cos().to(x.dtype), both.sin().to(x.dtype)
"""
NO_LONGER = """
config.drop_decorators("LlamaRotaryEmbedding.forward", "dynamic_rope_update")


@config.override_method("LlamaRotaryEmbedding.forward")
def rotary_forward(self, x, position_ids):
    angles = position_ids[:, :, None].float() @ self.inv_freq[None, None, :].float()
    both = torch.cat((angles, angles), dim=-1)
    return (both.cos() * self.attention_scaling).to(x.dtype), (both.sin() * self.attention_scaling).to(x.dtype)
"""
LAST_TOKEN = """
@config.override_method("LlamaForSequenceClassification.forward")
def classify(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
    hidden_states = self.model(input_ids, attention_mask=attention_mask, **kwargs).last_hidden_state
    logits = self.score(hidden_states)
    tokens = torch.arange(logits.shape[1]) * (input_ids != self.config.pad_token_id)
    pooled_logits = logits[torch.arange(len(logits)), tokens.argmax(-1)]
    loss = None
    if labels is not None:
        {loss}
    return SequenceClassifierOutputWithPast(loss=loss, logits=pooled_logits)
"""
TIED_WITHOUT_LABELS = """
@config.override_method("LlamaForCausalLM.forward")
def head_forward(self, input_ids=None, labels=None, logits_to_keep=0, num_items_in_batch=None, **kwargs):
    outputs = self.model(input_ids=input_ids, **kwargs)
    loss, hidden_states = None, outputs.last_hidden_state
    if labels is None:
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(hidden_states[:, kept, :])
        if self.config.tie_word_embeddings:
            logits = logits * {factor}
    else:
        logits = self.lm_head(hidden_states)
        loss = self.loss_function(
            logits, labels, self.config.vocab_size, num_items_in_batch=num_items_in_batch, **kwargs
        )
    return CausalLMOutputWithPast(
        loss, logits, outputs.past_key_values, outputs.hidden_states, outputs.attentions
    )
"""
IMPORTED = 'config.add_import("transformers.modeling_outputs", names=["SequenceClassifierOutputWithPast"])\n'
OTHER_HEADS = 'config.exclude_from_output("LlamaForTokenClassification", "LlamaForQuestionAnswering")\n'
CLASSIFIER = f"{WHOLE}\n{OTHER_HEADS}{IMPORTED}"


@pytest.mark.parametrize(
    ("patch", "target", "change"),
    [
        (BIAS_TWICE, "LlamaMLP.forward", "mlp_bias=True"),
        (SILU_ALONE, "LlamaMLP.forward", "hidden_act=gelu_pytorch_tanh"),
        (NO_ATTENTION_FACTOR, "LlamaRotaryEmbedding.forward", "rope_type=yarn"),
        (NO_LONGER, "LlamaRotaryEmbedding.forward", "rope_type=dynamic"),
    ],
)
@pytest.mark.mostly_slow(1)
def test_what_only_another_configuration_shows_is_red_with_that_alone(
    work: Workspace, patch: str, target: str, change: str
) -> None:
    (problem,) = compare(work, patch).errors
    assert f"look at the patch of '{target}'" in problem.message
    assert f"Batch 'padded, {change}'" in problem.hint


@pytest.mark.slow
def test_a_head_that_branches_on_labels_is_run_without_them_too(work: Workspace) -> None:
    assert compare(work, TIED_WITHOUT_LABELS.format(factor=1.0)).errors == ()
    (problem,) = compare(work, TIED_WITHOUT_LABELS.format(factor=2.0)).errors
    assert "look at the patch of 'LlamaForCausalLM.forward'" in problem.message
    assert "Batch 'padded without labels, evaluated, tie_word_embeddings=True'" in problem.hint


def test_a_patch_that_refuses_a_configuration_is_right(work: Workspace) -> None:
    result = compare(work, ASKS_FOR_SILU)
    assert result.errors == ()
    refusal = "ValueError: made for silu, not gelu_pytorch_tanh"
    assert f"LlamaForCausalLM, batch 'padded, hidden_act=gelu_pytorch_tanh': {refusal}" in result.notes


def test_a_project_may_have_a_folder_of_a_librarys_name(tmp_path: Path) -> None:
    file = tmp_path / "transformers" / "acme.py"
    file.parent.mkdir()
    file.write_text("raise ValueError('made for silu')\n", encoding="utf-8")
    with pytest.raises(ValueError, match="made for silu") as raised:
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"))
    assert why_declined(raised.value) == "ValueError: made for silu"
    with pytest.raises(ValueError, match="Unrecognized") as raised:
        transformers.AutoConfig.for_model("acme")
    assert why_declined(raised.value) == ""


@pytest.mark.slow
def test_the_loss_of_a_classifier_is_that_of_its_problem(work: Workspace) -> None:
    single = "loss = nn.functional.cross_entropy(pooled_logits, labels.long().flatten()[: len(logits)])"
    (problem,) = compare(work, LAST_TOKEN.format(loss=single), preamble=CLASSIFIER).errors
    assert "LlamaForSequenceClassification" in problem.message
    assert "problem_type=multi_label_classification" in problem.hint


@pytest.mark.slow
def test_a_patch_that_reads_no_field_is_run_with_the_toy_alone(work: Workspace) -> None:
    patch = 'config.drop_decorators("LlamaRMSNorm", "use_kernel_forward_from_hub")'
    assert not any("configuration is varied" in note for note in compare(work, patch, preamble=PREAMBLE).notes)


@pytest.mark.slow
def test_a_field_that_a_batch_gives_as_an_argument_is_asked_for_by_the_configuration_alone(work: Workspace) -> None:
    module = "transformers.models.mixtral.modeling_mixtral"
    text = edited("MixtralForCausalLM.forward", {"self.config.output_router_logits": "False"}, module)
    preamble = WHOLE.replace("llama", "mixtral")
    (problem,) = compare(work, text, preamble=preamble).errors
    told = f"{problem.message} {problem.hint}"
    assert "output_router_logits=True" in told
    assert "'MixtralForCausalLM.forward'" in told
