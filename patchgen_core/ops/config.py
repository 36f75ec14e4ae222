"""Which implementation each op gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.ops.kernel_spec import EAGER
from patchgen_core.ops.registry import KERNEL_REGISTRY

SUFFIX = "_implementation"


@dataclass(frozen=True)
class OpsConfig:
    """The implementation of each op; a plain mapping with these names does as well, and may name ops of others.

    Every value is the name of a registered kernel: "eager" for upstream's own lines, "liger_kernel", "npu", ...
    """

    rms_norm_implementation: str = EAGER
    rotary_pos_emb_implementation: str = EAGER
    swiglu_mlp_implementation: str = EAGER
    geglu_mlp_implementation: str = EAGER
    layer_norm_implementation: str = EAGER
    cross_entropy_loss_implementation: str = EAGER
    moe_experts_implementation: str = EAGER
    moe_load_balancing_loss_implementation: str = EAGER


def implementations(ops_config: OpsConfig | Mapping[str, str], ops: Iterable[str]) -> dict[str, str]:
    """The implementation of each op (mapping keys are ``<op>_implementation``); an op that is not named is eager.

    A mapping may name ``ops`` beside the registered ones. Any other name, and any other type, is a PatchgenError.
    """
    if isinstance(ops_config, OpsConfig):
        given = {field.name: getattr(ops_config, field.name) for field in fields(ops_config)}
    elif isinstance(ops_config, Mapping):
        given = dict(ops_config)
    else:
        raise PatchgenError(f"an ops config is an OpsConfig or a mapping of its fields, not {ops_config!r}")
    known = {f"{op}{SUFFIX}" for op in (*ops, *(spec.op_name for spec in KERNEL_REGISTRY.specs()))}
    known |= {field.name for field in fields(OpsConfig)}
    for name in given:
        if name not in known:
            near = (
                did_you_mean(f"{name}{SUFFIX}", known)
                if f"{name}{SUFFIX}" in known
                else did_you_mean(str(name), known)
            )
            hint = near or f"There are: {', '.join(sorted(known))}."
            raise PatchgenError(f"the ops config names {name!r}, which no op has", None, hint)
    return {name[: -len(SUFFIX)]: value for name, value in given.items()}
