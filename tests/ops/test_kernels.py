"""The default kernels: eager ones against upstream's code, Liger's in an interpreter in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from patchgen_core.errors import PatchgenError
from patchgen_core.ops import KERNEL_REGISTRY
from patchgen_core.ops.kernels import DEFAULTS
from tests.ops.kernel_cases import REFUSED_ROTATIONS, child

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def eager(op: str, variant: str = "standard") -> Callable[..., Any]:
    return KERNEL_REGISTRY.resolve(op, "eager", variant)


def same(ours: Callable[[], Tensor], theirs: Callable[[], Tensor], inputs: list[Tensor]) -> None:
    """Assert equal values and gradients, bit for bit."""
    found = []
    for compute in (ours, theirs):
        value = compute()
        torch.manual_seed(9)
        found.append([value, *torch.autograd.grad(value, inputs, torch.randn(value.shape).to(value.dtype))])
    for one, other in zip(*found):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


def drawn(dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.randn(shape).to(dtype).requires_grad_()


def test_listing_kernels_imports_no_torch() -> None:
    code = """
        import json, sys
        from patchgen_core.ops import KERNEL_REGISTRY
        labels = [spec.label for spec in KERNEL_REGISTRY.specs()]
        print(json.dumps([labels, [name for name in ("torch", "triton", "liger_kernel") if name in sys.modules]]))
    """
    labels, imported = child(code)
    assert "rms_norm-one_plus_weight-liger_kernel" in labels
    assert imported == []


def test_every_variant_has_an_eager_kernel() -> None:
    variants = {(spec.op_name, spec.variant) for spec in DEFAULTS}
    assert variants == {(spec.op_name, spec.variant) for spec in DEFAULTS if spec.name == "eager"}


@pytest.mark.parametrize("spec", [spec for spec in DEFAULTS if spec.name == "npu"], ids=lambda spec: spec.label)
def test_npu_kernels_are_refused_without_an_npu(spec: Any) -> None:
    with pytest.raises(PatchgenError, match=f"kernel 'npu' for {spec.op_name}/{spec.variant} needs"):
        KERNEL_REGISTRY.resolve(spec.op_name, "npu", spec.variant)


@DTYPES
def test_rms_norm_is_llamas(dtype: torch.dtype) -> None:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    norm, states = LlamaRMSNorm(12, eps=1e-5).to(dtype), drawn(dtype, 2, 3, 12)
    norm.weight.data = torch.randn(12).to(dtype)
    same(lambda: eager("rms_norm")(states, norm.weight, 1e-5), lambda: norm(states), [states, norm.weight])


@DTYPES
@pytest.mark.parametrize(
    "name", ["gemma2.modeling_gemma2.Gemma2RMSNorm", "qwen3_next.modeling_qwen3_next.Qwen3NextRMSNorm"]
)
def test_rms_norm_of_one_plus_weight_is_gemmas_and_qwen3_nexts(name: str, dtype: torch.dtype) -> None:
    from importlib import import_module

    module, _, cls = name.rpartition(".")
    norm = getattr(import_module(f"transformers.models.{module}"), cls)(12, eps=1e-5).to(dtype)
    norm.weight.data, states = torch.randn(12).to(dtype), drawn(dtype, 2, 3, 12)
    kernel = eager("rms_norm", "one_plus_weight")
    same(lambda: kernel(states, norm.weight, 1e-5), lambda: norm(states), [states, norm.weight])


@DTYPES
@pytest.mark.parametrize("dim", [1, 2])
def test_rotary_is_llamas(dtype: torch.dtype, dim: int) -> None:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    q, k = (drawn(dtype, 2, *((heads, 5) if dim == 1 else (5, heads)), 8) for heads in (4, 2))
    angles = torch.randn(2, 5, 4).repeat(1, 1, 2)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    for n, inputs in enumerate(([q], [k])):
        same(
            lambda n=n: eager("rotary_pos_emb", "full")(q, k, cos, sin, unsqueeze_dim=dim)[n],
            lambda n=n: apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=dim)[n],
            inputs,
        )


@pytest.mark.parametrize("name", REFUSED_ROTATIONS)
def test_rotations_that_do_not_fit_are_refused(name: str) -> None:
    q, k, cos, dim = REFUSED_ROTATIONS[name]
    with pytest.raises(PatchgenError, match="rotary_pos_emb/full"):
        eager("rotary_pos_emb", "full")(torch.zeros(q), torch.zeros(k), torch.zeros(cos), torch.zeros(cos), dim)


@DTYPES
@pytest.mark.parametrize(("op", "act"), [("swiglu_mlp", "silu"), ("geglu_mlp", "gelu_pytorch_tanh")])
def test_gated_products_are_upstreams_activation_times_up(op: str, act: str, dtype: torch.dtype) -> None:
    from transformers.activations import ACT2FN

    gate, up = drawn(dtype, 3, 7), drawn(dtype, 3, 7)
    same(lambda: eager(op)(gate, up), lambda: ACT2FN[act](gate) * up, [gate, up])


@pytest.mark.parametrize("up", [torch.zeros(3, 1), torch.zeros(3, 7).bfloat16()])
def test_a_gate_that_is_unlike_up_is_refused(up: Tensor) -> None:
    with pytest.raises(PatchgenError, match="gate and up must be alike"):
        eager("swiglu_mlp")(torch.zeros(3, 7), up)


@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm_is_torchs(bias: bool) -> None:
    norm, states = torch.nn.LayerNorm(9, eps=1e-3, bias=bias), drawn(torch.float32, 2, 3, 9)
    same(lambda: eager("layer_norm")(states, norm.weight, norm.bias, 1e-3), lambda: norm(states), [states])


@DTYPES
@pytest.mark.parametrize("items", [None, 11])
def test_cross_entropy_is_upstreams(dtype: torch.dtype, items: int | None) -> None:
    from transformers.loss.loss_utils import fixed_cross_entropy

    logits, labels = drawn(dtype, 6, 13), torch.randint(13, (6,))
    labels[1] = -100
    same(
        lambda: eager("cross_entropy_loss")(logits, labels, num_items_in_batch=items),
        lambda: fixed_cross_entropy(logits.float(), labels, items),
        [logits],
    )


def experts(dtype: torch.dtype, tokens: int = 6, hidden: int = 12, inner: int = 6) -> dict[str, Any]:
    return {
        "hidden_states": drawn(dtype, tokens, hidden),
        "top_k_index": torch.rand(tokens, 5).argsort(dim=-1)[:, :2],
        "top_k_weights": torch.rand(tokens, 2).to(dtype).requires_grad_(),
        "gate_up_proj": drawn(dtype, 5, 2 * inner, hidden),
        "down_proj": drawn(dtype, 5, hidden, inner),
        "act_fn": F.silu,
    }


@DTYPES
def test_eager_experts_are_upstreams(dtype: torch.dtype) -> None:
    from transformers import Qwen3MoeConfig
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeExperts

    config = Qwen3MoeConfig(hidden_size=12, moe_intermediate_size=6, num_experts=5, experts_implementation="eager")
    upstream, given = Qwen3MoeExperts(config).to(dtype), experts(dtype)
    for name in ("gate_up_proj", "down_proj"):
        getattr(upstream, name).data = given[name].data
        given[name] = getattr(upstream, name)
    inputs = [given[name] for name in ("hidden_states", "top_k_weights", "gate_up_proj", "down_proj")]
    routed = [given[name] for name in ("hidden_states", "top_k_index", "top_k_weights")]
    same(lambda: eager("moe_experts")(**given), lambda: upstream(*routed), inputs)


@pytest.mark.parametrize("name", ["eager", "grouped_mm"])
def test_no_tokens_make_no_output(name: str) -> None:
    output = KERNEL_REGISTRY.resolve("moe_experts", name)(**experts(torch.float32, tokens=0))
    assert output.shape == (0, 12)


@pytest.mark.parametrize("name", ["eager", "grouped_mm"])
@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("top_k_index", torch.zeros(5, 2).long()),
        ("gate_up_proj", torch.zeros(5, 12, 12).transpose(0, 1)),
        ("down_proj", torch.zeros(5, 6, 12)),
    ],
)
def test_experts_that_do_not_fit_are_refused(name: str, argument: str, value: Tensor) -> None:
    with pytest.raises(PatchgenError, match="moe_experts: "):
        KERNEL_REGISTRY.resolve("moe_experts", name)(**{**experts(torch.float32), argument: value})


@DTYPES
@pytest.mark.slow
def test_grouped_experts_compile_without_a_graph_break(dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    kernel = KERNEL_REGISTRY.resolve("moe_experts", "grouped_mm")
    compiled = torch.compile(kernel, fullgraph=True, backend="aot_eager")
    for tokens in (6, 3, 4):
        given = experts(dtype, tokens)
        inputs = [value for value in given.values() if isinstance(value, Tensor) and value.requires_grad]
        same(lambda given=given: compiled(**given), lambda given=given: kernel(**given), inputs)


def test_grouped_experts_follow_autocast() -> None:
    given = experts(torch.float32)
    kernel = KERNEL_REGISTRY.resolve("moe_experts", "grouped_mm")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = kernel(**given)
    rounded = kernel(**{n: v.bfloat16() if isinstance(v, Tensor) and v.requires_grad else v for n, v in given.items()})
    assert output.dtype == torch.float32
    torch.testing.assert_close(output, rounded.float(), rtol=0.05, atol=0.05)
