"""The load-balancing loss: eager against upstream's code, and the cheaper one against both."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from patchgen_core.errors import PatchgenError
from patchgen_core.ops import KERNEL_REGISTRY
from tests.ops.test_kernels import DTYPES, drawn

MASK = torch.tensor([[1, 1, 0], [1, 0, 0]])
NAMES = pytest.mark.parametrize("name", ["eager", "scatter_add"])
MASKS = pytest.mark.parametrize("mask", [None, MASK], ids=["all", "padding"])


def kernel(name: str) -> Any:
    return KERNEL_REGISTRY.resolve("moe_load_balancing_loss", name)


def layers(dtype: torch.dtype) -> tuple[Tensor, ...]:
    return tuple(drawn(dtype, 6, 5) for _ in range(3))


@NAMES
@MASKS
def test_it_is_upstreams(name: str, mask: Tensor | None) -> None:
    from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

    logits = layers(torch.float32)
    ours = kernel(name)(logits, 5, 2, mask)
    theirs = load_balancing_loss_func(logits, 5, 2, mask)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(torch.autograd.grad(ours, logits), torch.autograd.grad(theirs, logits))


@NAMES
@MASKS
def test_its_gradient_is_the_slope_of_its_value(name: str, mask: Tensor | None) -> None:
    logits = layers(torch.float64)
    assert torch.autograd.gradcheck(lambda *given: kernel(name)(given, 5, 2, mask) * 3, logits)


@DTYPES
def test_both_are_float32_and_their_gradients_are_not(dtype: torch.dtype) -> None:
    for name in ("eager", "scatter_add"):
        logits = layers(dtype)
        loss = kernel(name)(logits, 5, 2)
        assert (loss.dtype, loss.shape) == (torch.float32, ())
        assert {one.dtype for one in torch.autograd.grad(loss, logits)} == {dtype}


def test_ties_are_broken_alike() -> None:
    logits = tuple(torch.randint(3, (40, 8)).bfloat16() for _ in range(2))
    torch.testing.assert_close(kernel("scatter_add")(logits, 8, 3), kernel("eager")(logits, 8, 3))


def test_nothing_but_the_logits_is_kept_for_the_backward_pass() -> None:
    logits = layers(torch.float32)
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        kernel("scatter_add")(logits, 5, 2, MASK)
    own = {one.data_ptr() for one in logits}
    assert [one.numel() for one in kept if one.data_ptr() not in own] == [6, 5]  # the mask, and a number each expert


@pytest.mark.slow
def test_it_compiles_without_a_graph_break() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(kernel("scatter_add"), fullgraph=True, backend="aot_eager")
    for mask in (None, MASK):
        logits = layers(torch.float32)
        values = [function(logits, 5, 2, mask) for function in (compiled, kernel("eager"))]
        gradients = [torch.autograd.grad(value, logits) for value in values]
        torch.testing.assert_close(*values)
        torch.testing.assert_close(*gradients)


@NAMES
@pytest.mark.parametrize("logits", [None, (), torch.zeros(6, 5), (torch.zeros(6, 4),)])
def test_a_loss_of_nothing_is_refused(name: str, logits: Any) -> None:
    with pytest.raises(PatchgenError, match="router logits"):
        kernel(name)(logits, 5, 2)
