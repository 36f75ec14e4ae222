"""Liger's cross entropies, in the calling conventions of :mod:`patchgen_core.ops.losses`.

Liger computes gradients in the forward pass, over the logits, and reads numbers back from the device. Both are kept
inside of operators of our own: logits keep their values, a graph can be run backward more than once, and
``torch.compile`` takes the operators as they are, without a graph break.
"""

from __future__ import annotations

from typing import Any

import torch
from liger_kernel.ops.cross_entropy import cross_entropy_forward
from liger_kernel.ops.fused_linear_cross_entropy import fused_linear_cross_entropy_forward
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.kernels.liger import refuse_float64
from patchgen_core.ops.kernels.operators import operator
from patchgen_core.ops.losses import (
    IGNORE,
    SINGLE_LABEL,
    causal_targets,
    class_targets,
    cross_entropy,
    per_item,
    problem,
)


def cross_entropy_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    ignore_index: int = IGNORE,
    num_items_in_batch: int | Tensor | None = None,
) -> Tensor:
    """``cross_entropy_loss/standard``, as :func:`patchgen_core.ops.kernels.eager.cross_entropy_loss`."""
    refuse_float64(logits)
    if not labels.numel():  # nothing to launch a kernel for
        return cross_entropy(logits, labels, ignore_index, num_items_in_batch)
    wants_gradient = torch.is_grad_enabled() and logits.requires_grad
    mean = num_items_in_batch is None
    loss: Tensor = _CrossEntropy.apply(logits, labels, ignore_index, mean, wants_gradient)  # type: ignore[no-untyped-call]
    return per_item(loss, num_items_in_batch)


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
    """``cross_entropy_loss/causal``, as :func:`patchgen_core.ops.losses.causal_lm_loss`, without all the logits."""
    states, targets = causal_targets(hidden_states, weights, labels, shift_labels, logits_to_keep, ignore_index)
    return _fused(states, weights, targets, bias, num_items_in_batch, ignore_index, softcap)


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
    """``cross_entropy_loss/seq_cls``, for single labels; a problem of another type is a PatchgenError."""
    kind = problem(weights, labels, problem_type)
    if kind != SINGLE_LABEL:
        raise PatchgenError(
            f"Liger's fused loss is for {SINGLE_LABEL}, and this is {kind}: {weights.shape[0]} classes, "
            f"labels of {labels.dtype}",
            None,
            "Use cross_entropy_loss_implementation='eager' for this model.",
        )
    states, targets = class_targets(hidden_states, weights, labels, logits_to_keep)
    return _fused(states, weights, targets, bias, num_items_in_batch, ignore_index, softcap)


def _fused(
    states: Tensor,
    weights: Tensor,
    targets: Tensor,
    bias: Tensor | None,
    num_items_in_batch: int | Tensor | None,
    ignore_index: int,
    softcap: float | None,
) -> Tensor:
    refuse_float64(states)
    if not targets.numel():  # nothing to launch a kernel for
        return cross_entropy(F.linear(states, weights, bias), targets, ignore_index, num_items_in_batch)
    tensors = [tensor for tensor in (states, weights, bias) if tensor is not None]
    backward = torch.is_grad_enabled()
    wants_gradient = backward and any(tensor.requires_grad for tensor in tensors)
    wants_weights = backward and weights.requires_grad
    mean = num_items_in_batch is None
    loss: Tensor = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
        states, weights, targets, bias, ignore_index, mean, softcap, wants_gradient, wants_weights
    )
    return per_item(loss, num_items_in_batch)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        loss, *gradients = liger_cross_entropy(*arguments)
        ctx.save_for_backward(*gradients)
        return loss  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (d_logits,) = ctx.saved_tensors
        return d_logits * grads[0].to(d_logits.dtype), None, None, None, None


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        loss, *gradients = liger_linear_cross_entropy(*arguments)
        ctx.save_for_backward(*gradients)
        return loss  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        needs_gradient = (*ctx.needs_input_grad[:2], ctx.needs_input_grad[3])
        d_states, d_weights, d_bias = (
            gradient * grads[0].to(gradient.dtype) if want else None
            for gradient, want in zip(ctx.saved_tensors, needs_gradient)
        )
        return d_states, d_weights, None, d_bias, None, None, None, None, None


def _fake_cross_entropy(
    logits: Tensor, labels: Tensor, ignore_index: int, mean: bool, wants_gradient: bool
) -> tuple[Tensor, Tensor]:
    gradient = logits.new_empty(logits.shape if wants_gradient else 0)
    return logits.new_empty((), dtype=torch.float32), gradient


@operator(_fake_cross_entropy)
def liger_cross_entropy(
    logits: Tensor, labels: Tensor, ignore_index: int, mean: bool, wants_gradient: bool
) -> tuple[Tensor, Tensor]:
    """The loss and its gradient for the logits, empty unless it is wanted."""
    _check_range(labels, logits.shape[-1], ignore_index)
    wide = logits.detach().to(torch.float32, copy=True, memory_format=torch.contiguous_format)
    reduction = "mean" if mean else "sum"
    loss, *_, wide = cross_entropy_forward(
        wide.requires_grad_(wants_gradient), labels, None, ignore_index, 0.0, 0.0, reduction, None, False
    )
    gradient = wide.detach().to(logits.dtype) if wants_gradient else logits.new_empty(0)
    return _nan_for_none(loss.detach(), labels, ignore_index, mean), gradient


def _fake_linear_cross_entropy(
    states: Tensor, weights: Tensor, labels: Tensor, bias: Tensor | None, *flags: Any
) -> tuple[Tensor, ...]:
    *_, wants_gradient, wants_weights = flags
    loss = states.new_empty((), dtype=torch.float32)
    inputs = (states if wants_gradient else None, weights if wants_weights else None, bias if wants_gradient else None)
    gradients = (states.new_empty(0) if tensor is None else tensor.new_empty(tensor.shape) for tensor in inputs)
    return loss, *gradients


@operator(_fake_linear_cross_entropy)
def liger_linear_cross_entropy(
    states: Tensor,
    weights: Tensor,
    labels: Tensor,
    bias: Tensor | None,
    ignore_index: int,
    mean: bool,
    softcap: float | None,
    wants_gradient: bool,
    wants_weights: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The loss and its gradients for states, weights and bias, empty where they are not wanted."""
    _check_range(labels, weights.shape[0], ignore_index)
    loss, *_, d_states, d_weights, d_bias = fused_linear_cross_entropy_forward(
        states.contiguous(),
        weights,
        labels,
        bias=bias,
        ignore_index=ignore_index,
        reduction="mean" if mean else "sum",
        softcap=softcap,
        accum_dtype=torch.float32,
        compute_gradients=wants_gradient,
        weight_requires_grad=wants_weights,
    )
    d_states, d_weights, d_bias = (
        states.new_empty(0) if gradient is None else gradient
        for gradient in (d_states if wants_gradient else None, d_weights, d_bias)
    )
    return _nan_for_none(loss, labels, ignore_index, mean), d_states, d_weights, d_bias


def _check_range(labels: Tensor, classes: int, ignore_index: int) -> None:
    """Refuse labels that the kernels would read beyond the logits for."""
    wrong = labels[((labels < 0) | (labels >= classes)) & (labels != ignore_index)]
    if wrong.numel():
        raise PatchgenError(f"label {wrong[0].item()} is none of {classes} classes, nor ignore_index={ignore_index}")


def _nan_for_none(loss: Tensor, labels: Tensor, ignore_index: int, mean: bool) -> Tensor:
    """The mean over no labels is NaN, as torch's is; Liger's is 0."""
    return loss.masked_fill((labels == ignore_index).all(), torch.nan) if mean else loss
