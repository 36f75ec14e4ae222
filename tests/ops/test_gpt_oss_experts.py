"""The experts of gpt-oss: eager ones against upstream's code, grouped ones against these."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from patchgen_core.errors import PatchgenError
from patchgen_core.ops import KERNEL_REGISTRY
from tests.ops.test_kernels import DTYPES, drawn, same

NAMES = pytest.mark.parametrize("name", ["eager", "grouped_mm"])


def kernel(name: str) -> Any:
    return KERNEL_REGISTRY.resolve("moe_experts", name, "gpt_oss")


def experts(dtype: torch.dtype, tokens: int = 6, hidden: int = 16, inner: int = 8) -> dict[str, Any]:
    return {
        "hidden_states": drawn(dtype, tokens, hidden),
        "top_k_index": torch.rand(tokens, 5).argsort(dim=-1)[:, :2],
        "top_k_weights": torch.rand(tokens, 2).to(dtype).requires_grad_(),
        "gate_up_proj": drawn(dtype, 5, hidden, 2 * inner),
        "gate_up_proj_bias": drawn(dtype, 5, 2 * inner),
        "down_proj": drawn(dtype, 5, inner, hidden),
        "down_proj_bias": drawn(dtype, 5, hidden),
        "alpha": 1.7,
        "limit": 2.0,
    }


def differentiated(given: dict[str, Any]) -> list[Tensor]:
    return [value for value in given.values() if isinstance(value, Tensor) and value.requires_grad]


@DTYPES
@pytest.mark.mostly_slow(1)
def test_eager_experts_are_upstreams(dtype: torch.dtype) -> None:
    from transformers import GptOssConfig
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts

    sizes = {
        "hidden_size": 16,
        "intermediate_size": 8,
        "num_local_experts": 5,
        "swiglu_alpha": 1.7,
        "swiglu_limit": 2.0,
    }
    upstream = GptOssExperts(GptOssConfig(**sizes, experts_implementation="eager")).to(dtype)
    given = experts(dtype)
    for name, parameter in upstream.named_parameters():
        parameter.data = given[name].data
        given[name] = parameter
    routed = [given[name] for name in ("hidden_states", "top_k_index", "top_k_weights")]
    same(lambda: kernel("eager")(**given), lambda: upstream(*routed), differentiated(given))


def test_both_clamps_bite() -> None:
    given = experts(torch.float32)
    free = kernel("eager")(**{**given, "limit": 1e9})
    assert not torch.allclose(kernel("eager")(**given), free)


@DTYPES
@pytest.mark.parametrize("hidden", [16, 11], ids=["aligned", "padded"])
def test_grouped_experts_are_eager_ones(dtype: torch.dtype, hidden: int) -> None:
    given = experts(dtype, hidden=hidden)
    outputs = [kernel(name)(**given) for name in ("eager", "grouped_mm")]
    weights = torch.randn_like(outputs[0])
    values = [[one, *torch.autograd.grad(one, differentiated(given), weights)] for one in outputs]
    for eager, grouped in zip(*values, strict=True):
        assert grouped.dtype == eager.dtype
        scale = float(eager.detach().abs().max())
        torch.testing.assert_close(grouped, eager, rtol=0, atol=scale * (1e-5 if dtype == torch.float32 else 0.03))


def test_aligned_weights_are_not_copied() -> None:
    given = experts(torch.float32)
    before = [one.data_ptr() for one in differentiated(given)]
    shapes = []

    class Copies(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            result = function(*args, **(kwargs or {}))
            if isinstance(result, Tensor) and result.dim() == 3 and result.data_ptr() not in before:
                shapes.append((str(function), tuple(result.shape)))
            return result

    with Copies():
        kernel("grouped_mm")(**given)
    assert [shape for _, shape in shapes if shape[0] == 5] == []


@NAMES
def test_experts_of_other_ranks_add_nothing(name: str) -> None:
    given = experts(torch.float32)
    index = given["top_k_index"]
    away = torch.tensor([[5, -1], [5, 5], [-1, 7], [5, 5], [9, 5], [5, 5]])
    given["top_k_index"] = torch.where(torch.tensor([[1, 0]]).bool(), index, away)
    output = kernel(name)(**given)
    alone = {**given, "top_k_index": index[:, :1], "top_k_weights": given["top_k_weights"][:, :1]}
    torch.testing.assert_close(output, kernel("eager")(**alone))


@NAMES
def test_no_tokens_make_no_output(name: str) -> None:
    assert kernel(name)(**experts(torch.float32, tokens=0)).shape == (0, 16)


@NAMES
@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("top_k_index", torch.zeros(5, 2).long()),
        ("gate_up_proj", torch.zeros(5, 8, 16)),
        ("gate_up_proj_bias", torch.zeros(5, 8)),
        ("down_proj", torch.zeros(5, 16, 8)),
        ("down_proj_bias", torch.zeros(16)),
    ],
)
def test_experts_that_do_not_fit_are_refused(name: str, argument: str, value: Tensor) -> None:
    with pytest.raises(PatchgenError, match="moe_experts"):
        kernel(name)(**{**experts(torch.float32), argument: value})


@DTYPES
@pytest.mark.slow
def test_grouped_experts_compile_without_a_graph_break(dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(kernel("grouped_mm"), fullgraph=True, backend="aot_eager")
    for tokens in (6, 3):
        given = experts(dtype, tokens)
        same(
            lambda given=given: compiled(**given),
            lambda given=given: kernel("grouped_mm")(**given),
            differentiated(given),
        )
