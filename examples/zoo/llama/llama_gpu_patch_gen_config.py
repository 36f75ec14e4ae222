"""Llama on a GPU: Liger's RMSNorm, SwiGLU and rotary embedding in place of upstream's.

Each is imported under upstream's name, so the generated module has no copy of Liger's code.

    patchgen zoo.llama.llama_gpu_patch_gen_config --diff
"""

from patchgen import PatchConfig, create_patch_from_external

config = PatchConfig(
    source_module="transformers.models.llama.modeling_llama",
    target_file="patched_modeling_llama_gpu.py",
    description="Llama with Liger kernels for GPU training",
)

# Upstream marks the rotary function for the kernels hub and has its attention take the mark up. Liger's
# function has no such mark.
config.drop_decorators("LlamaAttention", "use_kernelized_func")

config.patches.extend(
    [
        create_patch_from_external(
            target="LlamaRMSNorm",
            replacement_module="liger_kernel.transformers.rms_norm",
            replacement_name="LigerRMSNorm",
            description="Fused RMSNorm: one kernel, and only the reciprocal deviation is kept for backward",
        ),
        # Liger's MLP has no biases: for a checkpoint with config.mlp_bias=True, leave this patch out.
        create_patch_from_external(
            target="LlamaMLP",
            replacement_module="liger_kernel.transformers.swiglu",
            replacement_name="LigerSwiGLUMLP",
            description="Fused SwiGLU: the activation is recomputed in backward instead of stored",
        ),
        create_patch_from_external(
            target="apply_rotary_pos_emb",
            replacement_module="liger_kernel.transformers.rope",
            replacement_name="liger_rotary_pos_emb",
            description="Fused rotary embedding: rotates queries and keys in place",
        ),
    ]
)
