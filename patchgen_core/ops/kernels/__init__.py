"""The kernels that are registered from the start.

Each op has one calling convention for all its implementations of a variant, which the eager function documents:
:mod:`patchgen_core.ops.kernels.eager`, :mod:`patchgen_core.ops.kernels.moe` and :mod:`patchgen_core.ops.losses`.
Nothing that a kernel needs is imported before it is first bound.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial

from patchgen_core.ops.hardware import HardwareRequirement
from patchgen_core.ops.registry import Kernel, KernelSpec

_TRITON = HardwareRequirement("cuda", interpretable=True)
_NPU = HardwareRequirement("npu")
_LIGER_PACKAGES = ("liger_kernel>=0.8.5", "triton")
_NPU_PACKAGES = ("torch_npu",)


def _in(module: str, name: str) -> Callable[[], Kernel]:
    """A factory that imports a function."""
    return partial(_load, module, name)


def _load(module: str, name: str) -> Kernel:
    kernel: Kernel = getattr(importlib.import_module(module), name)
    return kernel


_EAGER = "patchgen_core.ops.kernels.eager"
_LIGER = "patchgen_core.ops.kernels.liger"
_LIGER_LOSSES = "patchgen_core.ops.kernels.liger_losses"
_LOSSES = "patchgen_core.ops.losses"
_MOE = "patchgen_core.ops.kernels.moe"
_NPU_KERNELS = "patchgen_core.ops.kernels.npu"

DEFAULTS: tuple[KernelSpec, ...] = (
    KernelSpec(
        name="eager",
        op_name="rms_norm",
        variant="standard",
        factory=_in(_EAGER, "rms_norm"),
        description="RMSNorm, as upstream",
    ),
    KernelSpec(
        name="liger_kernel",
        op_name="rms_norm",
        variant="standard",
        factory=_in(_LIGER, "rms_norm"),
        hardware=_TRITON,
        description="RMSNorm by Liger",
        packages=_LIGER_PACKAGES,
    ),
    KernelSpec(
        name="npu",
        op_name="rms_norm",
        variant="standard",
        factory=_in(_NPU_KERNELS, "rms_norm"),
        hardware=_NPU,
        description="RMSNorm by torch_npu",
        packages=_NPU_PACKAGES,
    ),
    KernelSpec(
        name="eager",
        op_name="rms_norm",
        variant="one_plus_weight",
        factory=_in(_EAGER, "rms_norm_one_plus_weight"),
        description="RMSNorm with 1 + weight, as upstream",
    ),
    KernelSpec(
        name="liger_kernel",
        op_name="rms_norm",
        variant="one_plus_weight",
        factory=_in(_LIGER, "rms_norm_one_plus_weight"),
        hardware=_TRITON,
        description="RMSNorm with 1 + weight by Liger",
        packages=_LIGER_PACKAGES,
    ),
    KernelSpec(
        name="npu",
        op_name="rms_norm",
        variant="one_plus_weight",
        factory=_in(_NPU_KERNELS, "rms_norm_one_plus_weight"),
        hardware=_NPU,
        description="RMSNorm with 1 + weight by torch_npu",
        packages=_NPU_PACKAGES,
    ),
    KernelSpec(
        name="eager",
        op_name="rotary_pos_emb",
        variant="full",
        factory=_in(_EAGER, "rotary_pos_emb"),
        description="rotation of whole heads, as upstream",
    ),
    KernelSpec(
        name="liger_kernel",
        op_name="rotary_pos_emb",
        variant="full",
        factory=_in(_LIGER, "rotary_pos_emb"),
        hardware=_TRITON,
        description="rotation of whole heads by Liger",
        packages=_LIGER_PACKAGES,
    ),
    KernelSpec(
        name="npu",
        op_name="rotary_pos_emb",
        variant="full",
        factory=_in(_NPU_KERNELS, "rotary_pos_emb"),
        hardware=_NPU,
        description="rotation of whole heads by torch_npu",
        packages=_NPU_PACKAGES,
    ),
    KernelSpec(
        name="eager",
        op_name="swiglu_mlp",
        variant="standard",
        factory=_in(_EAGER, "swiglu_mlp"),
        description="silu(gate) * up",
    ),
    KernelSpec(
        name="liger_kernel",
        op_name="swiglu_mlp",
        variant="standard",
        factory=_in(_LIGER, "swiglu_mlp"),
        hardware=_TRITON,
        description="silu(gate) * up by Liger",
        packages=_LIGER_PACKAGES,
    ),
    KernelSpec(
        name="npu",
        op_name="swiglu_mlp",
        variant="standard",
        factory=_in(_NPU_KERNELS, "swiglu_mlp"),
        hardware=_NPU,
        description="silu(gate) * up by torch_npu",
        packages=_NPU_PACKAGES,
    ),
    KernelSpec(
        name="eager",
        op_name="geglu_mlp",
        variant="standard",
        factory=_in(_EAGER, "geglu_mlp"),
        description="gelu_tanh(gate) * up",
    ),
    KernelSpec(
        name="liger_kernel",
        op_name="geglu_mlp",
        variant="standard",
        factory=_in(_LIGER, "geglu_mlp"),
        hardware=_TRITON,
        description="gelu_tanh(gate) * up by Liger",
        packages=_LIGER_PACKAGES,
    ),
    KernelSpec(
        name="eager",
        op_name="layer_norm",
        variant="standard",
        factory=_in(_EAGER, "layer_norm"),
        description="layer norm, as torch",
    ),
    KernelSpec(
        name="liger_kernel",
        op_name="layer_norm",
        variant="standard",
        factory=_in(_LIGER, "layer_norm"),
        hardware=_TRITON,
        description="layer norm by Liger",
        packages=_LIGER_PACKAGES,
    ),
    KernelSpec(
        name="eager",
        op_name="cross_entropy_loss",
        variant="standard",
        factory=_in(_EAGER, "cross_entropy_loss"),
        description="cross entropy of logits",
    ),
    KernelSpec(
        name="liger_kernel",
        op_name="cross_entropy_loss",
        variant="standard",
        factory=_in(_LIGER_LOSSES, "cross_entropy_loss"),
        hardware=_TRITON,
        description="cross entropy of logits by Liger",
        packages=_LIGER_PACKAGES,
    ),
    KernelSpec(
        name="eager",
        op_name="cross_entropy_loss",
        variant="causal",
        factory=_in(_LOSSES, "causal_lm_loss"),
        description="next-token loss of hidden states",
    ),
    KernelSpec(
        name="liger_kernel",
        op_name="cross_entropy_loss",
        variant="causal",
        factory=_in(_LIGER_LOSSES, "causal_lm_loss"),
        hardware=_TRITON,
        description="next-token loss of hidden states by Liger, without all the logits",
        packages=_LIGER_PACKAGES,
    ),
    KernelSpec(
        name="eager",
        op_name="cross_entropy_loss",
        variant="seq_cls",
        factory=_in(_LOSSES, "seq_cls_loss"),
        description="classification loss of hidden states",
    ),
    KernelSpec(
        name="liger_kernel",
        op_name="cross_entropy_loss",
        variant="seq_cls",
        factory=_in(_LIGER_LOSSES, "seq_cls_loss"),
        hardware=_TRITON,
        description="classification loss of hidden states by Liger, without all the logits",
        packages=_LIGER_PACKAGES,
    ),
    KernelSpec(
        name="eager",
        op_name="moe_load_balancing_loss",
        variant="standard",
        factory=_in(_EAGER, "moe_load_balancing_loss"),
        description="load-balancing loss of routers, as upstream",
    ),
    KernelSpec(
        name="eager",
        op_name="moe_experts",
        variant="standard",
        factory=_in(_MOE, "eager_experts"),
        description="a loop over experts, as upstream",
    ),
    KernelSpec(
        name="grouped_mm",
        op_name="moe_experts",
        variant="standard",
        factory=_in(_MOE, "grouped_mm_experts"),
        description="all experts by torch's grouped matrix multiply",
        packages=("torch>=2.10",),
    ),
)
"""The kernels that :data:`~patchgen_core.ops.KERNEL_REGISTRY` starts with."""
