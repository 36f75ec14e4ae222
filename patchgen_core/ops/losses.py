"""Losses that take hidden states and the head's weights, so that a fused kernel need never hold all the logits.

Both functions are the eager implementations of the op ``cross_entropy_loss``: ``causal`` and ``seq_cls``. Every
implementation of these variants takes the same arguments and returns the same: the loss, a scalar tensor of float32.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from patchgen_core.errors import PatchgenError, did_you_mean

IGNORE = -100
SINGLE_LABEL, MULTI_LABEL, REGRESSION = "single_label_classification", "multi_label_classification", "regression"


def causal_lm_loss(
    hidden_states: Tensor,
    weights: Tensor,
    labels: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    logits_to_keep: int | Tensor = 0,
    num_items_in_batch: int | Tensor | None = None,
    ignore_index: int = IGNORE,
    shift_labels: Tensor | None = None,
    softcap: float | None = None,
) -> Tensor:
    """Cross entropy of predicting each next token; the numbers of transformers' ``ForCausalLMLoss``.

    A scalar of float32 (float64 for hidden states of float64).

    Args:
        hidden_states: the last hidden states, [B, S, H], of all positions, whatever ``logits_to_keep`` is.
        weights: ``lm_head.weight``, [V, H].
        labels: token ids, [B, S], as they stand in the input: they are shifted here, once.
        bias: ``lm_head.bias``, [V].
        logits_to_keep: 0 for all positions, n for the last n, or a 1-D tensor of positions. Labels are shifted
            first: the loss is of the predictions that are made at these positions.
        num_items_in_batch: what the sum of the losses is divided by, such as the number of labels of all
            micro-batches; without it the loss is the mean over the labels that are not ignored, NaN when none is
            left.
        shift_labels: instead of ``labels``, labels that are shifted already: position t holds what it predicts.
        softcap: logits become ``softcap * tanh(logits / softcap)``, in float32.

    Raises:
        PatchgenError: labels and hidden states differ in shape, both or none of ``labels`` and ``shift_labels``
            are given, or ``logits_to_keep`` is neither a number nor a 1-D tensor of positions.
    """
    states, targets = causal_targets(hidden_states, weights, labels, shift_labels, logits_to_keep, ignore_index)
    return cross_entropy(_logits(states, weights, bias, softcap), targets, ignore_index, num_items_in_batch)


def seq_cls_loss(
    hidden_states: Tensor,
    weights: Tensor,
    labels: Tensor,
    *,
    bias: Tensor | None = None,
    logits_to_keep: int | Tensor = 0,
    num_items_in_batch: int | Tensor | None = None,
    ignore_index: int = IGNORE,
    softcap: float | None = None,
    problem_type: str | None = None,
) -> Tensor:
    """Loss of a classification head; the numbers of transformers' ``ForSequenceClassificationLoss`` in float32.

    A scalar of float32 (float64 for hidden states of float64). What is not listed is as in :func:`causal_lm_loss`.

    Args:
        hidden_states: one row for each thing to classify: [B, H], the hidden state of each sequence's last token
            that is no padding; or [B, S, H] where every position has a label, all but one of which may be
            ignored.
        weights: ``score.weight``, [C, H].
        labels: classes, of the shape of ``hidden_states`` without H; nothing is shifted. Numbers of the shape
            [..., C] for several labels or regression.
        bias: ``score.bias``, [C].
        problem_type: "single_label_classification", "multi_label_classification" or "regression". Told from the
            number of classes and the labels when it is None: one class is regression, integer labels are classes.
            The fused implementations have "single_label_classification" alone and refuse the others.

    Raises:
        PatchgenError: labels and hidden states do not fit, or there is no such problem type.
    """
    kind = problem(weights, labels, problem_type)
    if kind == SINGLE_LABEL:
        states, targets = class_targets(hidden_states, weights, labels, logits_to_keep)
        return cross_entropy(_logits(states, weights, bias, softcap), targets, ignore_index, num_items_in_batch)
    logits = _logits(_positions(hidden_states, logits_to_keep), weights, bias, softcap)
    targets = labels.to(logits.device, logits.dtype)
    if targets.shape == logits.shape[:-1] and logits.shape[-1] == 1:
        targets = targets.unsqueeze(-1)
    if targets.shape != logits.shape:
        shapes = f"labels of shape {tuple(labels.shape)} do not fit logits of shape {tuple(logits.shape)}"
        raise PatchgenError(f"{shapes} in a {kind} problem")
    reduction = "mean" if num_items_in_batch is None else "sum"
    compute = F.mse_loss if kind == REGRESSION else F.binary_cross_entropy_with_logits
    return per_item(compute(logits, targets, reduction=reduction), num_items_in_batch)


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    ignore_index: int = IGNORE,
    num_items_in_batch: int | Tensor | None = None,
) -> Tensor:
    """Cross entropy of logits [N, V] and classes [N], in float32: a scalar.

    The sum over labels that are not ignored, divided by ``num_items_in_batch``, or by their number without it.
    """
    reduction = "mean" if num_items_in_batch is None else "sum"
    loss = F.cross_entropy(widen(logits), labels, ignore_index=ignore_index, reduction=reduction)
    return per_item(loss, num_items_in_batch)


def causal_targets(
    hidden_states: Tensor,
    weights: Tensor,
    labels: Tensor | None,
    shift_labels: Tensor | None,
    logits_to_keep: int | Tensor,
    ignore_index: int,
) -> tuple[Tensor, Tensor]:
    """The hidden states [N, H] of :func:`causal_lm_loss` to predict from, and the class [N] that each predicts."""
    if (labels is None) == (shift_labels is None):
        raise PatchgenError(
            f"causal_lm_loss takes labels or shift_labels, not {'none of them' if labels is None else 'both'}",
            None,
            "labels are those of the input; shift_labels are already shifted by one.",
        )
    if labels is not None:
        _fit(hidden_states, weights, labels)
        shift_labels = F.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    assert shift_labels is not None
    return class_targets(hidden_states, weights, shift_labels, logits_to_keep)


def class_targets(
    hidden_states: Tensor, weights: Tensor, labels: Tensor, logits_to_keep: int | Tensor
) -> tuple[Tensor, Tensor]:
    """The hidden states [N, H] to classify and their classes [N], of hidden states and labels of any shape."""
    _fit(hidden_states, weights, labels)
    states = _positions(hidden_states, logits_to_keep)
    targets = _positions(labels.unsqueeze(-1), logits_to_keep)
    return states.reshape(-1, states.shape[-1]), targets.reshape(-1).to(states.device, torch.long)


def problem(weights: Tensor, labels: Tensor, problem_type: str | None) -> str:
    """The kind of problem of :func:`seq_cls_loss`; PatchgenError when there is none of that name."""
    if problem_type is None:
        if weights.shape[0] == 1:
            return REGRESSION
        return MULTI_LABEL if labels.is_floating_point() else SINGLE_LABEL
    problem_types = (SINGLE_LABEL, MULTI_LABEL, REGRESSION)
    if problem_type not in problem_types:
        hint = did_you_mean(problem_type, problem_types) or f"There are: {', '.join(problem_types)}."
        raise PatchgenError(f"there is no problem type '{problem_type}'", None, hint)
    return problem_type


def widen(tensor: Tensor) -> Tensor:
    """A tensor in float32; in float64 when it is that already."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _logits(states: Tensor, weights: Tensor, bias: Tensor | None, softcap: float | None) -> Tensor:
    logits = widen(F.linear(states, weights, bias))
    return logits if softcap is None else softcap * torch.tanh(logits / softcap)


def per_item(loss: Tensor, num_items_in_batch: int | Tensor | None) -> Tensor:
    """A sum of losses divided by the number of items; a loss without such a number as it is."""
    if num_items_in_batch is None:
        return loss
    if isinstance(num_items_in_batch, Tensor):
        num_items_in_batch = num_items_in_batch.to(loss.device)
    return loss / num_items_in_batch


def _positions(states: Tensor, logits_to_keep: int | Tensor) -> Tensor:
    """The positions of [..., S, H] that ``logits_to_keep`` names."""
    if isinstance(logits_to_keep, int) and logits_to_keep == 0:
        return states
    if states.dim() < 3:
        raise PatchgenError(f"logits_to_keep={logits_to_keep!r} picks positions, which pooled hidden states lack")
    if isinstance(logits_to_keep, int) and logits_to_keep > 0:
        return states[..., -logits_to_keep:, :]
    is_index = isinstance(logits_to_keep, Tensor) and logits_to_keep.dtype in (torch.int64, torch.int32)
    if isinstance(logits_to_keep, Tensor) and is_index and logits_to_keep.dim() == 1:
        return states[..., logits_to_keep.to(states.device), :]
    raise PatchgenError(
        f"logits_to_keep is 0 for all positions, a number of last ones or a 1-D tensor of positions, "
        f"not {logits_to_keep!r}"
    )


def _fit(hidden_states: Tensor, weights: Tensor, labels: Tensor) -> None:
    if weights.dim() != 2 or weights.shape[1] != hidden_states.shape[-1]:
        raise PatchgenError(
            f"weights of shape {tuple(weights.shape)} do not fit hidden states of shape {tuple(hidden_states.shape)}",
            None,
            "Pass the head's weight, [classes, hidden size].",
        )
    if labels.shape != hidden_states.shape[:-1]:
        raise PatchgenError(
            f"labels of shape {tuple(labels.shape)} do not fit hidden states of shape {tuple(hidden_states.shape)}",
            None,
            "Pass the hidden states of all positions: logits_to_keep says what to keep of them.",
        )
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise PatchgenError(f"labels are class numbers, not {labels.dtype}")
