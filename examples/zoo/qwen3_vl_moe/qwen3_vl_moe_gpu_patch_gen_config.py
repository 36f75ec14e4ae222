"""Qwen3-VL-MoE by op slots: Qwen3-VL with the experts of Qwen3-MoE, and the patches of both.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.qwen3_vl_moe.qwen3_vl_moe_gpu_patch_gen_config --diff
"""

# Upstream's loss takes tuples of one tensor, by its annotation.
# pyright: reportArgumentType=false

from typing import TYPE_CHECKING

from patchgen import PatchConfig

from zoo.llama.llama_gpu_patch_gen_config import (
    llama_apply_rotary_pos_emb,
    llama_mlp_forward,
    llama_rms_norm_forward,
)
from zoo.qwen2_vl.qwen2_vl_gpu_patch_gen_config import (
    Qwen2VLPositions,
    Qwen2VLVisionMetadata,
    needs_dummy_forward,
    qwen2_vl_get_metadata_collate_func,
    qwen2_vl_get_position_id_func,
)
from zoo.qwen2_vl.sequence_parallel import SEQUENCE_PARALLEL, qwen2_vl_vision_attention_forward
from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import qwen3_moe_experts_forward
from zoo.qwen3_vl.qwen3_vl_gpu_patch_gen_config import (
    Qwen3VLVisionMetadata,
    qwen3_vl_model_forward,
    qwen3_vl_model_init,
    qwen3_vl_vision_dummy_forward,
)
from zoo.qwen3_vl.sequence_parallel import (
    qwen3_vl_text_attention_forward,
    qwen3_vl_text_model_forward,
    qwen3_vl_vision_forward,
)

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import reduce_loss, sequence_parallel_load_balancing
    from transformers.modeling_utils import slice_logits_to_keep
    from transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe import load_balancing_loss_func

    from zoo.qwen3_vl_moe.generated.patched_modeling_qwen3_vl_moe_gpu import (
        slot_causal_lm_loss,
        slot_load_balancing_loss,
    )

_NAME_MAP = {"Qwen3VL": "Qwen3VLMoe"}
_OF_QWEN2_VL = {"Qwen2VL": "Qwen3VLMoe"}
_OF_TEXT = _NAME_MAP | {"BaseModelOutputWithPast": "MoeModelOutputWithPast"}

config = PatchConfig(
    source_module="transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe",
    target_file="patched_modeling_qwen3_vl_moe_gpu.py",
    description="Qwen3-VL-MoE with op slots for GPU training",
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=["sequence_parallel_load_balancing", *SEQUENCE_PARALLEL])
config.add_import("transformers.vision_utils", names=["get_vision_cu_seqlens"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_rotary_pos_emb = OpSlot("rotary_pos_emb", "full")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_moe_experts = OpSlot("moe_experts", "standard")
    slot_load_balancing_loss = OpSlot("moe_load_balancing_loss", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    """
)

# Kernels of the hub, and transformers' own choice of experts, would take the place of what is patched below.
config.drop_decorators("Qwen3VLMoeTextRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3VLMoeTextAttention", "use_kernelized_func")
config.drop_decorators("Qwen3VLMoeTextExperts", "use_experts_implementation")

config.edit_method(
    "Qwen3VLMoeTextRMSNorm.forward",
    edit=llama_rms_norm_forward,
    name_map={"Llama": "Qwen3VLMoeText"},
    description="Op slot for RMSNorm",
)
config.override_method(
    "Qwen3VLMoeTextMLP.forward",
    replacement=llama_mlp_forward,
    name_map={"Llama": "Qwen3VLMoeText"},
    description="Op slot for SwiGLU",
)
config.edit_method(
    "Qwen3VLMoeTextExperts.forward", edit=qwen3_moe_experts_forward, description="Op slot for the experts"
)
# The positions of the three axes are interleaved before this function, which rotates whole heads.
config.edit_function(
    "apply_rotary_pos_emb", edit=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)

config.edit_method(
    "Qwen3VLMoeTextAttention.forward",
    edit=qwen3_vl_text_attention_forward,
    name_map=_NAME_MAP,
    description="Sequence parallel attention",
)
config.edit_method(
    "Qwen3VLMoeTextModel.forward",
    edit=qwen3_vl_text_model_forward,
    name_map=_OF_TEXT,
    description="Positions and masks of whole sequences",
)
config.edit_method(
    "Qwen3VLMoeVisionAttention.forward",
    edit=qwen2_vl_vision_attention_forward,
    name_map={"VisionAttention": "Qwen3VLMoeVisionAttention"},
    description="Sequence parallel attention in the vision tower",
)
config.edit_method(
    "Qwen3VLMoeVisionModel.forward",
    edit=qwen3_vl_vision_forward,
    name_map=_NAME_MAP,
    description="The vision tower on slices of the patches",
)

config.add_helper(needs_dummy_forward)
config.add_helper(Qwen2VLVisionMetadata)
config.add_helper(Qwen3VLVisionMetadata, name_map=_NAME_MAP)
config.add_helper_after("Qwen3VLMoeModel", Qwen2VLPositions, name_map=_OF_QWEN2_VL)

config.override_method(
    "Qwen3VLMoeVisionModel.dummy_forward",
    replacement=qwen3_vl_vision_dummy_forward,
    name_map=_NAME_MAP,
    description="The tower on a batch without pictures",
    add=True,
)
config.override_method(
    "Qwen3VLMoeModel.__init__",
    replacement=qwen3_vl_model_init,
    name_map=_NAME_MAP,
    description="The patched text model and tower instead of upstream's",
)
# Upstream's text is Qwen3-VL's: it returns what the text model returns, router logits and all, and makes no output.
config.edit_method(
    "Qwen3VLMoeModel.forward",
    edit=qwen3_vl_model_forward,
    name_map=_NAME_MAP,
    description="The vision tower runs on every rank",
)


# ================================================================
# Patch: Qwen3VLMoeForConditionalGeneration.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# 2. load-balancing loss by its slot
# 3. under sequence parallelism both losses are those of whole sequences
# ================================================================
config.delete_code(
    "Qwen3VLMoeForConditionalGeneration.forward",
    """
    hidden_states = slice_logits_to_keep(...)
    logits = self.lm_head(...)
    """,
    description="Op slots for the losses",
)


@config.edit_method(
    "Qwen3VLMoeForConditionalGeneration.forward",
    at="""
    if labels is not None:
        loss = self.loss_function(...)
    """,
)
def qwen3_vl_moe_for_conditional_generation_forward(
    self, labels, logits_to_keep, kwargs, hidden_states, loss, shift_labels
):
    logits = None
    if labels is not None and slot_causal_lm_loss.has_kernel:
        shift_labels = kwargs.get("shift_labels")
        loss = slot_causal_lm_loss(
            hidden_states,
            self.lm_head.weight,
            labels if shift_labels is None else None,
            shift_labels=shift_labels,
            logits_to_keep=logits_to_keep,
            num_items_in_batch=kwargs.get("num_items_in_batch"),
            ignore_index=kwargs.get("ignore_index", -100),
        )
    else:
        hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
        logits = self.lm_head(hidden_states)
        ...
    if loss is not None:
        loss = reduce_loss(
            loss,
            kwargs.get("shift_labels", labels),
            num_items_in_batch=kwargs.get("num_items_in_batch"),
            ignore_index=kwargs.get("ignore_index", -100),
        )


@config.edit_method("Qwen3VLMoeForConditionalGeneration.forward", at="aux_loss = load_balancing_loss_func(...)")
def call_sequence_parallel_load_balancing(self, attention_mask, kwargs, outputs):
    balance = slot_load_balancing_loss if slot_load_balancing_loss.has_kernel else load_balancing_loss_func
    balance = sequence_parallel_load_balancing(balance)
    aux_loss = balance(
        outputs.router_logits,
        self.config.text_config.num_experts,
        self.config.text_config.num_experts_per_tok,
        kwargs.get("token_mask", attention_mask),
    )


config.override_method(
    "Qwen3VLMoeForConditionalGeneration.get_position_id_func",
    replacement=qwen2_vl_get_position_id_func,
    name_map=_OF_QWEN2_VL,
    description="Positions for data transforms",
    add=True,
)
config.override_method(
    "Qwen3VLMoeForConditionalGeneration.get_metadata_collate_func",
    replacement=qwen2_vl_get_metadata_collate_func,
    name_map=_OF_QWEN2_VL,
    description="Metadata of pictures for collate functions",
    add=True,
)


# ================================================================
# Patch: Qwen3VLMoeForConditionalGeneration.get_parallel_plan
# 1. new - a trainer asks the model which parameters it may split
# ================================================================
@config.override_method(
    "Qwen3VLMoeForConditionalGeneration.get_parallel_plan", description="Expert parallel plan for trainers", add=True
)
def qwen3_vl_moe_get_parallel_plan(self):
    # --- Patch.1 ---
    from zoo.qwen3_vl_moe.parallel_plan import get_parallel_plan

    return get_parallel_plan()
    # --- Patch.1 ---
