"""What a red comparison says: by which number values are off, what the batch passes, and one cause once."""

from __future__ import annotations

import pytest

from tests.checks.parity_runs import compare
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

NORM = """
import torch


@config.override_method("LlamaRMSNorm.forward")
def norm_forward(self, hidden_states):
    wide = hidden_states.float()
    variance = wide.pow(2).mean(-1, keepdim=True)
    return 0.5 * self.weight * (wide * torch.rsqrt(variance + self.variance_epsilon)).to(hidden_states.dtype)
"""
LOSS = """
config.add_import("torch.nn.functional", alias="F")


@config.edit_method("LlamaForCausalLM.forward", at="loss = self.loss_function(...)")
def loss_of_labels(self, logits, labels):
    shifted = F.pad(labels, (0, 1), value=-100)[..., 1:].reshape(-1)
    loss = F.cross_entropy(logits.float().view(-1, logits.shape[-1]), shifted, ignore_index=-100, reduction={!r})
"""
MISSPELT = """
import torch


@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    return self.down_proj(torch.nn.functional.sillu(self.gate_proj(x)) * self.up_proj(x))
"""


def test_a_loss_that_is_not_divided_says_by_what(work: Workspace) -> None:
    result = compare(work, LOSS.format("sum"))
    hint = result.errors[0].hint
    assert "The loss and every gradient are 12 x upstream's: the number of labels that count, by which" in hint
    assert "It passes rows of one length: input_ids [2, 9], attention_mask [2, 9], labels [2, 9]" in hint
    first = result.tables[0].rows[0]
    assert (first[0], first[-1]) == ("loss", "differs")


def test_an_output_that_is_a_multiple_of_upstreams_says_so(work: Workspace) -> None:
    hint = compare(work, NORM).errors[0].hint
    assert "where both agree. It is 0.5 x upstream's." in hint
    assert "every gradient" not in hint


def test_heads_that_one_patch_breaks_are_one_problem(work: Workspace) -> None:
    result = compare(work, MISSPELT)
    (problem,) = (problem for problem in result.errors if problem.target)
    assert problem.target == "LlamaMLP.forward"
    assert "has no attribute 'sillu'" in problem.message
    assert "Did you mean 'silu'?" in problem.hint
    assert problem.hint.endswith("The same in LlamaModel.")


def test_every_batch_of_a_training_step_says_what_it_passes(work: Workspace) -> None:
    notes = compare(work, NORM.replace("0.5 * ", "")).notes
    (trainer,) = (note for note in notes if note.startswith("batch 'trainer' passes "))
    assert "num_items_in_batch, labels shifted by the caller" in trainer
    assert "shift_labels [2, 6], num_items_in_batch=11" in trainer


def test_of_red_batches_the_simplest_is_shown(work: Workspace) -> None:
    result = compare(work, NORM)
    assert "Batch 'rows', float32" in result.errors[0].hint
