"""Losses of hidden states against transformers' own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.losses import causal_lm_loss, seq_cls_loss

BATCH, LENGTH, HIDDEN, VOCABULARY = 2, 5, 8, 13


@pytest.fixture
def states() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(BATCH, LENGTH, HIDDEN, requires_grad=True)


@pytest.fixture
def weights() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(VOCABULARY, HIDDEN, requires_grad=True)


@pytest.fixture
def labels() -> Tensor:
    torch.manual_seed(2)
    found = torch.randint(VOCABULARY, (BATCH, LENGTH))
    found[0, :2] = -100
    return found


def upstream(states: Tensor, weights: Tensor, labels: Tensor | None, **keywords: Any) -> Tensor:
    from transformers.loss.loss_utils import ForCausalLMLoss

    logits = F.linear(states, weights)
    return ForCausalLMLoss(logits, labels, vocab_size=weights.shape[0], **keywords)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("items", [None, 17, torch.tensor(17)])
def test_numbers_are_upstreams(
    states: Tensor, weights: Tensor, labels: Tensor, dtype: torch.dtype, items: Any
) -> None:
    given = [tensor.detach().to(dtype).requires_grad_() for tensor in (states, weights)]
    ours = causal_lm_loss(*given, labels, num_items_in_batch=items)
    theirs = upstream(*given, labels, num_items_in_batch=items)
    assert torch.equal(ours, theirs)
    assert ours.dtype == torch.float32
    assert ours.shape == ()
    for one, other in zip(torch.autograd.grad(ours, given), torch.autograd.grad(theirs, given)):
        assert torch.equal(one, other)


def test_shifted_labels_are_not_shifted_again(states: Tensor, weights: Tensor, labels: Tensor) -> None:
    shifted = F.pad(labels, (0, 1), value=-100)[:, 1:]
    ours = causal_lm_loss(states, weights, shift_labels=shifted)
    assert torch.equal(ours, causal_lm_loss(states, weights, labels))
    assert torch.equal(ours, upstream(states, weights, None, shift_labels=shifted.contiguous()))


def test_a_token_predicts_the_next_one(states: Tensor, weights: Tensor) -> None:
    labels = torch.full((BATCH, LENGTH), -100)
    labels[1, 3] = 4
    expected = F.cross_entropy(F.linear(states[1, 2], weights)[None], torch.tensor([4]))
    assert causal_lm_loss(states, weights, labels) == expected


def test_the_loss_of_a_model_is_the_loss_of_its_hidden_states() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, vocab_size=29
    )
    model = LlamaForCausalLM(config)
    tokens = torch.randint(29, (2, 7))
    states = model.model(tokens).last_hidden_state
    assert torch.equal(causal_lm_loss(states, model.lm_head.weight, tokens), model(tokens, labels=tokens).loss)


@pytest.mark.parametrize(("keep", "positions"), [(2, [3, 4]), (torch.tensor([0, 3]), [0, 3]), (9, [0, 1, 2, 3, 4])])
def test_positions_are_picked_after_the_shift(
    states: Tensor, weights: Tensor, labels: Tensor, keep: Any, positions: list[int]
) -> None:
    targets = F.pad(labels, (0, 1), value=-100)[:, 1:]
    others = [position for position in range(LENGTH) if position not in positions]
    targets[:, others] = -100
    expected = causal_lm_loss(states, weights, shift_labels=targets)
    torch.testing.assert_close(causal_lm_loss(states, weights, labels, logits_to_keep=keep), expected)


def test_bias_and_softcap_are_of_the_logits(states: Tensor, weights: Tensor, labels: Tensor) -> None:
    bias = torch.randn(VOCABULARY)
    logits = 2.0 * torch.tanh((F.linear(states, weights) + bias) / 2.0)
    expected = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    torch.testing.assert_close(causal_lm_loss(states, weights, labels, bias=bias, softcap=2.0), expected)


def test_another_label_can_be_the_one_to_ignore(states: Tensor, weights: Tensor) -> None:
    labels = torch.randint(1, VOCABULARY, (BATCH, LENGTH))
    marked = labels.clone()
    labels[:, 2], marked[:, 2] = -100, 0
    other = causal_lm_loss(states, weights, marked, ignore_index=0)
    assert torch.equal(other, causal_lm_loss(states, weights, labels))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": None}, "labels or shift_labels, not none"),
        ({"shift_labels": torch.zeros(BATCH, LENGTH).long()}, "labels or shift_labels, not both"),
        ({"labels": torch.zeros(BATCH, LENGTH + 1).long()}, r"labels of shape \(2, 6\) do not fit"),
        ({"labels": torch.zeros(BATCH, LENGTH)}, "labels are class numbers, not torch.float32"),
        ({"weights": torch.zeros(HIDDEN, VOCABULARY)}, r"weights of shape \(8, 13\) do not fit"),
        ({"logits_to_keep": -1}, "logits_to_keep is 0 for all positions"),
        ({"logits_to_keep": torch.tensor([0.5])}, "logits_to_keep is 0 for all positions"),
        ({"logits_to_keep": torch.ones(LENGTH).bool()}, "logits_to_keep is 0 for all positions"),
    ],
)
def test_what_does_not_fit_is_refused(
    states: Tensor, weights: Tensor, labels: Tensor, change: dict[str, Any], message: str
) -> None:
    arguments: dict[str, Any] = {"hidden_states": states, "weights": weights, "labels": labels, **change}
    with pytest.raises(PatchgenError, match=message):
        causal_lm_loss(**arguments)


def score(classes: int) -> Tensor:
    torch.manual_seed(3)
    return torch.randn(classes, HIDDEN, requires_grad=True)


def their_class_loss(states: Tensor, weights: Tensor, labels: Tensor, kind: str | None = None) -> Tensor:
    from transformers.loss.loss_utils import ForSequenceClassificationLoss

    config = SimpleNamespace(num_labels=weights.shape[0], problem_type=kind)
    return ForSequenceClassificationLoss(labels, F.linear(states, weights), config)


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        (4, torch.tensor([0, 3])),
        (1, torch.tensor([0.5, -1.0])),
        (1, torch.tensor([[0.5], [-1.0]])),
        (4, torch.tensor([[0.0, 1, 1, 0], [1, 0, 0, 0]])),
    ],
)
def test_the_kind_of_problem_is_told_as_upstream_does(states: Tensor, classes: int, labels: Tensor) -> None:
    pooled, weights = states[:, -1], score(classes)
    ours, theirs = seq_cls_loss(pooled, weights, labels), their_class_loss(pooled, weights, labels)
    torch.testing.assert_close(ours, theirs)
    assert ours.shape == ()
    torch.testing.assert_close(torch.autograd.grad(ours, weights), torch.autograd.grad(theirs, weights))


def test_a_kind_of_problem_can_be_named(states: Tensor) -> None:
    pooled, weights, labels = states[:, -1], score(3), torch.randn(BATCH, 3)
    ours = seq_cls_loss(pooled, weights, labels, problem_type="regression")
    torch.testing.assert_close(ours, their_class_loss(pooled, weights, labels, "regression"))


def test_classes_are_not_shifted(states: Tensor) -> None:
    labels = torch.tensor([[-100, -100, -100, -100, 2], [-100, -100, 1, -100, -100]])
    pooled = torch.stack([states[0, 4], states[1, 2]])
    expected = seq_cls_loss(pooled, score(4), torch.tensor([2, 1]))
    torch.testing.assert_close(seq_cls_loss(states, score(4), labels), expected)


@pytest.mark.parametrize(("classes", "labels"), [(4, torch.tensor([0, 3])), (1, torch.tensor([0.5, -1.0]))])
def test_items_divide_the_sum(states: Tensor, classes: int, labels: Tensor) -> None:
    mean = seq_cls_loss(states[:, -1], score(classes), labels)
    shared = seq_cls_loss(states[:, -1], score(classes), labels, num_items_in_batch=8)
    torch.testing.assert_close(shared, mean * 2 / 8)


def test_losses_are_of_float32_for_bfloat16(states: Tensor) -> None:
    pooled, weights = states[:, -1].bfloat16(), score(4).bfloat16()
    assert seq_cls_loss(pooled, weights, torch.tensor([0, 3])).dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problem_type": "single_label_clasification"}, "no problem type 'single_label_clasification'"),
        ({"labels": torch.tensor([0, 1, 2])}, r"labels of shape \(3,\) do not fit"),
        ({"labels": torch.zeros(BATCH, 3)}, r"labels of shape \(2, 3\) do not fit logits of shape \(2, 4\)"),
        ({"logits_to_keep": 1}, "which pooled hidden states lack"),
    ],
)
def test_what_cannot_be_classified_is_refused(states: Tensor, change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"hidden_states": states[:, -1], "weights": score(4), "labels": torch.tensor([0, 3])}
    with pytest.raises(PatchgenError, match=message):
        seq_cls_loss(**{**arguments, **change})
