"""Seed-OSS by op slots: Llama's norm, rotary embedding and heads, and so Llama's patches; the MLP has dropout.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.seed_oss.seed_oss_gpu_patch_gen_config --diff
"""

import torch
from patchgen import PatchConfig
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs

from zoo.llama.llama_gpu_patch_gen_config import (
    SEQUENCE_PARALLEL,
    llama_apply_rotary_pos_emb,
    llama_for_causal_lm_forward,
    llama_for_sequence_classification_forward,
    llama_model_forward,
    llama_rms_norm_forward,
)

config = PatchConfig(
    source_module="transformers.models.seed_oss.modeling_seed_oss",
    target_file="patched_modeling_seed_oss_gpu.py",
    description="Seed-OSS with op slots for GPU training",
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=list(SEQUENCE_PARALLEL))
config.add_import("transformers.modeling_outputs", names=["SequenceClassifierOutputWithPast"])
config.add_import("transformers.utils", names=["logging"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_rotary_pos_emb = OpSlot("rotary_pos_emb", "full")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    slot_seq_cls_loss = OpSlot("cross_entropy_loss", "seq_cls")
    """
)

# With kernels of the hub switched on, this would take the place of what is patched below.
config.drop_decorators("SeedOssRMSNorm", "use_kernel_forward_from_hub")

config.override_method(
    "SeedOssRMSNorm.forward",
    replacement=llama_rms_norm_forward,
    name_map={"Llama": "SeedOss"},
    description="Op slot for RMSNorm",
)


# ================================================================
# Patch: SeedOssMLP.forward
# 1. fused SiLU and product where a kernel is bound - dropout comes after it, as upstream
# ================================================================
@config.override_method("SeedOssMLP.forward", description="Op slot for SwiGLU")
def seed_oss_mlp_forward(self, x):
    # --- Patch.1 ---
    if slot_swiglu_mlp.has_kernel:
        if self.config.hidden_act not in ("silu", "swish"):
            raise ValueError(f"slot_swiglu_mlp computes SwiGLU, and hidden_act is {self.config.hidden_act!r}")
        down_proj = self.down_proj(slot_swiglu_mlp(self.gate_proj(x), self.up_proj(x)))
    else:
        # --- Patch.1 ---
        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
    down_proj = nn.functional.dropout(down_proj, p=self.residual_dropout, training=self.training)
    return down_proj


config.replace_function(
    "apply_rotary_pos_emb", replacement=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)
config.override_method(
    "SeedOssForCausalLM.forward",
    replacement=llama_for_causal_lm_forward,
    name_map={"Llama": "SeedOss"},
    description="Op slot for the loss",
)
config.override_method(
    "SeedOssForSequenceClassification.forward",
    replacement=llama_for_sequence_classification_forward,
    name_map={"Llama": "SeedOss"},
    description="Op slot for the loss of sequence classification",
)


# ================================================================
# Patch: SeedOssAttention.forward
# 1. under sequence parallelism each rank attends with its heads to whole sequences, of which it holds a slice
# ================================================================
@config.override_method("SeedOssAttention.forward", description="Sequence parallel attention")
def seed_oss_attention_forward(
    self,
    hidden_states: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    attention_mask: torch.Tensor | None,
    past_key_values: Cache | None = None,
    **kwargs: Unpack[TransformersKwargs],
) -> tuple[torch.Tensor, torch.Tensor]:
    input_shape = hidden_states.shape[:-1]
    hidden_shape = (*input_shape, -1, self.head_dim)

    query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
    key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
    value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)

    cos, sin = position_embeddings
    query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)

    if past_key_values is not None:
        key_states, value_states = past_key_values.update(key_states, value_states, self.layer_idx)

    attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
        self.config._attn_implementation, eager_attention_forward
    )
    # --- Patch.1 ---
    attention_interface = sequence_parallel_attention(attention_interface)
    # --- Patch.1 ---

    attn_output, attn_weights = attention_interface(
        self,
        query_states,
        key_states,
        value_states,
        attention_mask,
        dropout=0.0 if not self.training else self.attention_dropout,
        scaling=self.scaling,
        **kwargs,
    )

    attn_output = attn_output.reshape(*input_shape, -1).contiguous()
    attn_output = self.o_proj(attn_output)
    attn_output = nn.functional.dropout(attn_output, p=self.residual_dropout, training=self.training)

    return attn_output, attn_weights


config.override_method(
    "SeedOssModel.forward",
    replacement=llama_model_forward,
    name_map={"Llama": "SeedOss"},
    description="Positions and masks of whole sequences",
)
