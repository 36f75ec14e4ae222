"""Qwen3 on a GPU: Liger's kernels called from inside upstream's code, which stays in view.

On a CPU the generated module runs upstream's own lines.

    patchgen zoo.qwen3.qwen3_gpu_patch_gen_config --diff
"""

import torch
from patchgen import PatchConfig

config = PatchConfig(
    source_module="transformers.models.qwen3.modeling_qwen3",
    target_file="patched_modeling_qwen3_gpu.py",
    description="Qwen3 with Liger kernels for GPU training",
)

# With kernels of the hub switched on, these would take the place of what is patched below.
config.drop_decorators("Qwen3RMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3Attention", "use_kernelized_func")

config.add_import("liger_kernel.ops", names=["LigerRMSNormFunction", "LigerSiLUMulFunction"])
config.add_import("liger_kernel.transformers.rope", names=["liger_rotary_pos_emb"])


# ================================================================
# Patch: Qwen3RMSNorm.forward
# 1. fused kernel for CUDA tensors - one pass over the hidden states
# ================================================================
@config.override_method("Qwen3RMSNorm.forward", description="Fused RMSNorm for CUDA tensors")
def qwen3_rms_norm_forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
    # --- Patch.1 ---
    if hidden_states.is_cuda:
        # offset 0 and "llama" casting are upstream's formula; not in place, the caller keeps its tensor
        return LigerRMSNormFunction.apply(hidden_states, self.weight, self.variance_epsilon, 0.0, "llama", False)
    # --- Patch.1 ---
    input_dtype = hidden_states.dtype
    hidden_states = hidden_states.to(torch.float32)
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
    return self.weight * hidden_states.to(input_dtype)


# ================================================================
# Patch: Qwen3MLP.forward
# 1. fused SiLU and product for CUDA tensors - recomputed in backward instead of stored
# ================================================================
@config.override_method("Qwen3MLP.forward", description="Fused SwiGLU for CUDA tensors")
def qwen3_mlp_forward(self, x):
    # --- Patch.1 ---
    if x.is_cuda and self.config.hidden_act in ("silu", "swish"):
        return self.down_proj(LigerSiLUMulFunction.apply(self.gate_proj(x), self.up_proj(x)))
    # --- Patch.1 ---
    down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
    return down_proj


# ================================================================
# Patch: apply_rotary_pos_emb
# 1. fused kernel for CUDA tensors - rotates queries and keys in one launch
# ================================================================
@config.replace_function("apply_rotary_pos_emb", description="Fused rotary embedding for CUDA tensors")
def qwen3_apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
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
    # --- Patch.1 ---
    if q.is_cuda:
        return liger_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
    # --- Patch.1 ---
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed
