"""Qwen3-VL on an Ascend NPU: norm, rotary embedding and MLP of the text model by torch_npu, all else as for GPUs.

Elsewhere than on an NPU the generated module runs upstream's own lines.

    patchgen zoo.qwen3_vl.qwen3_vl_npu_patch_gen_config --diff
"""

from patchgen import PatchConfig

from zoo.qwen3_vl.qwen3_vl_gpu_patch_gen_config import config as gpu_config
from zoo.seed_oss.seed_oss_npu_patch_gen_config import (
    IMPORT_TORCH_NPU,
    npu_apply_rotary_pos_emb,
    npu_mlp_forward,
    npu_rms_norm_forward,
)

config = PatchConfig(
    source_module=gpu_config.source_module,
    target_file="patched_modeling_qwen3_vl_npu.py",
    description="Qwen3-VL for NPU training",
)
config.additional_imports.extend(gpu_config.additional_imports)
config.dropped_decorators.extend(gpu_config.dropped_decorators)
config.helpers.extend(gpu_config.helpers)
config.positioned_helpers.extend(gpu_config.positioned_helpers)
config.add_post_import_block(IMPORT_TORCH_NPU)
config.add_post_import_block('slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")')
ON_NPU = ("Qwen3VLTextRMSNorm.forward", "Qwen3VLTextMLP.forward", "apply_rotary_pos_emb")
config.patches.extend(patch for patch in gpu_config.patches if patch.target not in ON_NPU)

# The tower's rotary embedding computes in float32 whatever the dtype is: it stays upstream's here too.
config.edit_method(
    "Qwen3VLTextRMSNorm.forward",
    edit=npu_rms_norm_forward,
    name_map={"SeedOss": "Qwen3VLText"},
    description="RMSNorm by torch_npu",
)
config.override_method("Qwen3VLTextMLP.forward", replacement=npu_mlp_forward, description="SwiGLU by torch_npu")
config.edit_function(
    "apply_rotary_pos_emb", edit=npu_apply_rotary_pos_emb, description="Rotary embedding by torch_npu"
)
