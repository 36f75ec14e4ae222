"""Seed-OSS on an Ascend NPU: norm, rotary embedding and MLP by torch_npu, all else from the config for GPUs.

Elsewhere than on an NPU the generated module runs upstream's own lines. The NPU configs of the zoo import the three
replacements that are shared, and the block that imports torch_npu.

    patchgen zoo.seed_oss.seed_oss_npu_patch_gen_config --diff
"""

import torch
from patchgen import PatchConfig

from zoo.seed_oss.seed_oss_gpu_patch_gen_config import config as gpu_config

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
@config.override_method("SeedOssRMSNorm.forward", description="RMSNorm by torch_npu")
def npu_rms_norm_forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
    # --- Patch.1 ---
    if hidden_states.device.type == "npu":
        return torch_npu.npu_rms_norm(hidden_states, self.weight, epsilon=self.variance_epsilon)[0]
    # --- Patch.1 ---
    input_dtype = hidden_states.dtype
    hidden_states = hidden_states.to(torch.float32)
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
    return self.weight * hidden_states.to(input_dtype)


# ================================================================
# Patch: apply_rotary_pos_emb
# 1. torch_npu's fused operator on an NPU
# ================================================================
@config.replace_function("apply_rotary_pos_emb", description="Rotary embedding by torch_npu")
def npu_apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    """Applies Rotary Position Embedding to the query and key tensors.

    Args:
        q (`torch.Tensor`): The query tensor.
        k (`torch.Tensor`): The key tensor.
        cos (`torch.Tensor`): The cosine part of the rotary embedding.
        sin (`torch.Tensor`): The sine part of the rotary embedding.
        unsqueeze_dim (`int`, *optional*, defaults to 1):
            The 'unsqueeze_dim' argument specifies the dimension along which to unsqueeze cos[position_ids] and
            sin[position_ids] so that they can be properly broadcasted to the dimensions of q and k. For example, note
            that cos[position_ids] and sin[position_ids] have the shape [batch_size, seq_len, head_dim]. Then, if q and
            k have the shape [batch_size, heads, seq_len, head_dim], then setting unsqueeze_dim=1 makes
            cos[position_ids] and sin[position_ids] broadcastable to the shapes of q and k. Similarly, if q and k have
            the shape [batch_size, seq_len, heads, head_dim], then set unsqueeze_dim=2.
    Returns:
        `tuple(torch.Tensor)` comprising of the query and key tensors rotated using the Rotary Position Embedding.
    """
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    # --- Patch.1 ---
    if q.device.type == "npu":
        cos, sin = cos.to(q.dtype), sin.to(q.dtype)
        return torch_npu.npu_rotary_mul(q, cos, sin), torch_npu.npu_rotary_mul(k, cos, sin)
    # --- Patch.1 ---
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


# ================================================================
# Patch: SeedOssMLP.forward
# 1. torch_npu's fused operator on an NPU, for SiLU - dropout comes after it, as upstream
# ================================================================
@config.override_method("SeedOssMLP.forward", description="SwiGLU by torch_npu")
def seed_oss_npu_mlp_forward(self, x):
    # --- Patch.1 ---
    if x.device.type == "npu" and self.config.hidden_act in ("silu", "swish"):
        gate_up = torch.cat((self.gate_proj(x), self.up_proj(x)), dim=-1)
        down_proj = self.down_proj(torch_npu.npu_swiglu(gate_up, dim=-1))
    else:
        # --- Patch.1 ---
        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
    down_proj = nn.functional.dropout(down_proj, p=self.residual_dropout, training=self.training)
    return down_proj


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
