"""Seed-OSS on an Ascend NPU: norm, rotary embedding and MLP by torch_npu, all else from the config for GPUs.

Elsewhere than on an NPU the generated module runs upstream's own lines. The NPU configs of the zoo import the three
replacements that are shared, and the block that imports torch_npu.

    patchgen zoo.seed_oss.seed_oss_npu_patch_gen_config --diff
"""

from typing import TYPE_CHECKING

import torch
from patchgen import Edits, PatchConfig

from zoo.seed_oss.seed_oss_gpu_patch_gen_config import config as gpu_config

if TYPE_CHECKING:
    from zoo.seed_oss.generated.patched_modeling_seed_oss_npu import torch_npu

IMPORT_TORCH_NPU = """
    # Missing where there is no NPU, and no tensor is on one there.
    try:
        import torch_npu
    except ImportError:
        torch_npu = None
    """

config = PatchConfig(
    source_module=gpu_config.source_module,
    target_file="patched_modeling_seed_oss_npu.py",
    description="Seed-OSS for NPU training",
)
config.additional_imports.extend(gpu_config.additional_imports)
config.dropped_decorators.extend(gpu_config.dropped_decorators)
config.add_post_import_block(IMPORT_TORCH_NPU)
config.add_post_import_block(
    """
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    slot_seq_cls_loss = OpSlot("cross_entropy_loss", "seq_cls")
    """
)
ON_NPU = ("SeedOssRMSNorm.forward", "SeedOssMLP.forward", "apply_rotary_pos_emb")
config.patches.extend(patch for patch in gpu_config.patches if patch.target not in ON_NPU)


# ================================================================
# Patch: SeedOssRMSNorm.forward
# 1. torch_npu's fused operator on an NPU
# ================================================================
@config.edit_method("SeedOssRMSNorm.forward", description="RMSNorm by torch_npu")
def npu_rms_norm_forward(self, hidden_states):
    if hidden_states.device.type == "npu":
        return torch_npu.npu_rms_norm(hidden_states, self.weight, epsilon=self.variance_epsilon)[0]
    ...


# ================================================================
# Patch: apply_rotary_pos_emb
# 1. torch_npu's fused operator on an NPU
# ================================================================
npu_apply_rotary_pos_emb = Edits()
npu_apply_rotary_pos_emb.drop_decorators("use_kernel_forward_from_hub")


@npu_apply_rotary_pos_emb.edit(at="sin = sin.unsqueeze(...)")
def npu_apply_rotary_pos_emb_2(q, k, cos, sin):
    ...
    if q.device.type == "npu":
        cos, sin = cos.to(q.dtype), sin.to(q.dtype)
        return torch_npu.npu_rotary_mul(q, cos, sin), torch_npu.npu_rotary_mul(k, cos, sin)


config.edit_function(
    "apply_rotary_pos_emb", edit=npu_apply_rotary_pos_emb, description="Rotary embedding by torch_npu"
)


# ================================================================
# Patch: SeedOssMLP.forward
# 1. torch_npu's fused operator on an NPU, for SiLU - dropout comes after it, as upstream
# ================================================================
@config.edit_method("SeedOssMLP.forward", at="down_proj = self.down_proj(...)", description="SwiGLU by torch_npu")
def seed_oss_npu_mlp_forward(self, x, gate_up):
    if x.device.type == "npu" and self.config.hidden_act in ("silu", "swish"):
        gate_up = torch.cat((self.gate_proj(x), self.up_proj(x)), dim=-1)
        down_proj = self.down_proj(torch_npu.npu_swiglu(gate_up, dim=-1))
    else:
        ...


# Seed-OSS itself has no use for this: it is the MLP without dropout, which other models have.


# ================================================================
# Patch: forward of a SwiGLU MLP
# 1. torch_npu's fused operator on an NPU, for SiLU
# ================================================================
def npu_mlp_forward(self, x):
    # --- Patch.1 ---
    if x.device.type == "npu" and self.config.hidden_act in ("silu", "swish"):
        gate_up = torch.cat((self.gate_proj(x), self.up_proj(x)), dim=-1)
        return self.down_proj(torch_npu.npu_swiglu(gate_up, dim=-1))
    # --- Patch.1 ---
    down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
    return down_proj
