"""The kernels that are registered from the start.

Each op has one calling convention for all its implementations of a variant, which the eager function documents:
:mod:`patchgen_core.ops.kernels.eager`, :mod:`patchgen_core.ops.losses`, and the modules of the mixtures of experts.
Nothing that a kernel needs is imported before it is first bound.
"""

from __future__ import annotations

import importlib
from functools import partial

from patchgen_core.ops.hardware import HardwareRequirement
from patchgen_core.ops.kernel_spec import Kernel, KernelSpec

_NEEDS: dict[str, tuple[HardwareRequirement | None, tuple[str, ...]]] = {
    "eager": (None, ()),
    "grouped_mm": (HardwareRequirement("cuda", (8, 0), or_cpu=True), ("torch>=2.10",)),
    "liger_kernel": (HardwareRequirement("cuda", interpretable=True), ("liger_kernel>=0.8.5", "triton")),
    "npu": (HardwareRequirement("npu"), ("torch_npu",)),
    "scatter_add": (None, ()),
}
"""The device and the packages that kernels need, by name."""

_FUSED_RANKS = {"grouped_mm": 1, "liger_kernel": 1, "npu": 2, "scatter_add": 1}


def _load(path: str) -> Kernel:
    module, _, function = path.partition(":")
    kernel: Kernel = getattr(importlib.import_module(module, __name__), function)
    return kernel


def _make_spec(name: str, op: str, path: str, description: str) -> KernelSpec:
    """A kernel of this package, with its function as ``module:function``, relative to this module."""
    op_name, _, variant = op.partition("/")
    hardware, packages = _NEEDS[name]
    factory, rank = partial(_load, path), _FUSED_RANKS.get(name)
    return KernelSpec(name, op_name, variant, factory, hardware, description, packages, rank)


DEFAULTS: tuple[KernelSpec, ...] = (
    _make_spec("eager", "rms_norm/standard", ".eager:rms_norm", "RMSNorm, as upstream"),
    _make_spec("liger_kernel", "rms_norm/standard", ".liger:rms_norm", "RMSNorm by Liger"),
    _make_spec("npu", "rms_norm/standard", ".npu:rms_norm", "RMSNorm by torch_npu"),
    _make_spec(
        "eager", "rms_norm/one_plus_weight", ".eager:rms_norm_one_plus_weight", "RMSNorm with 1 + weight, as upstream"
    ),
    _make_spec(
        "liger_kernel",
        "rms_norm/one_plus_weight",
        ".liger:rms_norm_one_plus_weight",
        "RMSNorm with 1 + weight by Liger",
    ),
    _make_spec(
        "npu", "rms_norm/one_plus_weight", ".npu:rms_norm_one_plus_weight", "RMSNorm with 1 + weight by torch_npu"
    ),
    _make_spec("eager", "rotary_pos_emb/full", ".eager:rotary_pos_emb", "rotation of whole heads, as upstream"),
    _make_spec("liger_kernel", "rotary_pos_emb/full", ".liger:rotary_pos_emb", "rotation of whole heads by Liger"),
    _make_spec("npu", "rotary_pos_emb/full", ".npu:rotary_pos_emb", "rotation of whole heads by torch_npu"),
    _make_spec("eager", "swiglu_mlp/standard", ".eager:swiglu_mlp", "silu(gate) * up"),
    _make_spec("liger_kernel", "swiglu_mlp/standard", ".liger:swiglu_mlp", "silu(gate) * up by Liger"),
    _make_spec("npu", "swiglu_mlp/standard", ".npu:swiglu_mlp", "silu(gate) * up by torch_npu"),
    _make_spec("eager", "geglu_mlp/standard", ".eager:geglu_mlp", "gelu_tanh(gate) * up"),
    _make_spec("liger_kernel", "geglu_mlp/standard", ".liger:geglu_mlp", "gelu_tanh(gate) * up by Liger"),
    _make_spec("eager", "layer_norm/standard", ".eager:layer_norm", "layer norm, as torch"),
    _make_spec("liger_kernel", "layer_norm/standard", ".liger:layer_norm", "layer norm by Liger"),
    _make_spec("eager", "cross_entropy_loss/standard", ".eager:cross_entropy_loss", "cross entropy of logits"),
    _make_spec(
        "liger_kernel",
        "cross_entropy_loss/standard",
        ".liger_losses:cross_entropy_loss",
        "cross entropy of logits by Liger",
    ),
    _make_spec("eager", "cross_entropy_loss/causal", "..losses:causal_lm_loss", "next-token loss of hidden states"),
    _make_spec(
        "liger_kernel",
        "cross_entropy_loss/causal",
        ".liger_losses:causal_lm_loss",
        "next-token loss of hidden states by Liger, without all the logits",
    ),
    _make_spec("eager", "cross_entropy_loss/seq_cls", "..losses:seq_cls_loss", "classification loss of hidden states"),
    _make_spec(
        "liger_kernel",
        "cross_entropy_loss/seq_cls",
        ".liger_losses:seq_cls_loss",
        "classification loss of hidden states by Liger, without all the logits",
    ),
    _make_spec(
        "eager",
        "moe_load_balancing_loss/standard",
        ".moe_losses:eager_load_balancing_loss",
        "load-balancing loss of routers, as upstream",
    ),
    _make_spec(
        "scatter_add",
        "moe_load_balancing_loss/standard",
        ".moe_losses:scatter_add_load_balancing_loss",
        "load-balancing loss of routers that counts experts in place",
    ),
    _make_spec("eager", "moe_experts/standard", ".moe:eager_experts", "a loop over experts, as upstream"),
    _make_spec(
        "grouped_mm",
        "moe_experts/standard",
        ".moe:grouped_mm_experts",
        "all experts by torch's grouped matrix multiply",
    ),
    _make_spec(
        "eager", "moe_experts/gpt_oss", ".moe_gpt_oss:eager_experts", "a loop over the experts of gpt-oss, as upstream"
    ),
    _make_spec(
        "grouped_mm",
        "moe_experts/gpt_oss",
        ".moe_gpt_oss:grouped_mm_experts",
        "all experts of gpt-oss by torch's grouped matrix multiply",
    ),
)
"""The kernels that :data:`~patchgen_core.ops.KERNEL_REGISTRY` starts with."""
