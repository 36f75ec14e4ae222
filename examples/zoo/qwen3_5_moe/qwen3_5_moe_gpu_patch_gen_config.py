"""Qwen3.5-MoE by op slots: Qwen3.5's patches under other names, and Qwen3-MoE's for experts and their losses.

What makes an output is not shared with Qwen3.5, because the outputs here have ``router_logits`` and ``aux_loss`` as
well: a mere renaming would leave them empty. Ranks may share its experts, and not its sequences: Qwen3.5's config says
why.

    patchgen zoo.qwen3_5_moe.qwen3_5_moe_gpu_patch_gen_config --diff
"""

from typing import TYPE_CHECKING

from patchgen import PatchConfig

from zoo.llama.llama_gpu_patch_gen_config import llama_mlp_forward
from zoo.qwen2_vl.qwen2_vl_gpu_patch_gen_config import (
    Qwen2VLPositions,
    needs_dummy_forward,
    qwen2_vl_get_metadata_collate_func,
    qwen2_vl_get_position_id_func,
    qwen2_vl_model_forward,
    qwen2_vl_vision_dummy_forward,
)
from zoo.qwen3_5.linear_attention import (
    FAST_LINEAR_ATTENTION,
    one_sequence_after_the_other,
    qwen3_5_gated_delta_net_forward,
    use_kernel_func_from_hub_with_fallback,
)
from zoo.qwen3_5.qwen3_5_gpu_patch_gen_config import (
    Qwen3_5VisionMetadata,
    qwen3_5_model_init,
    qwen3_5_rms_norm_forward,
    qwen3_5_rms_norm_gated_forward,
)
from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import (
    SEQUENCE_PARALLEL_LOSSES,
    qwen3_moe_experts_forward,
    qwen3_moe_for_causal_lm_forward,
)

if TYPE_CHECKING:
    from transformers.modeling_utils import slice_logits_to_keep
    from transformers.models.qwen3_5_moe.modeling_qwen3_5_moe import load_balancing_loss_func

    from zoo.qwen3_5_moe.generated.patched_modeling_qwen3_5_moe_gpu import (
        slot_causal_lm_loss,
        slot_load_balancing_loss,
    )

config = PatchConfig(
    source_module="transformers.models.qwen3_5_moe.modeling_qwen3_5_moe",
    target_file="patched_modeling_qwen3_5_moe_gpu.py",
    description="Qwen3.5-MoE with op slots for GPU training",
)
_NAMES = {"Qwen3_5": "Qwen3_5Moe"}
_NAMES_OF_QWEN2_VL = {
    "Qwen2VL": "Qwen3_5Moe",
    "Qwen2VisionTransformerPretrainedModel": "Qwen3_5MoeVisionModel",
    "BaseModelOutputWithPast": "MoeModelOutputWithPast",
}
_NAMES_OF_QWEN3_MOE = {"Qwen3Moe": "Qwen3_5Moe"}

config.add_import("functools", is_from_import=False)
config.add_import("inspect", is_from_import=False)
config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import(
    "patchgen_core.runtime.parallel", names=["check_position_ids", "select_features", *SEQUENCE_PARALLEL_LOSSES]
)
config.add_import("transformers.utils", names=["logging"])
config.add_import("transformers.vision_utils", names=["get_vision_cu_seqlens"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "one_plus_weight")
    slot_gated_rms_norm = OpSlot("rms_norm", "standard")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_moe_experts = OpSlot("moe_experts", "standard")
    slot_load_balancing_loss = OpSlot("moe_load_balancing_loss", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    """
)

# The fast path of linear attention: see Qwen3.5's config.
config.drop_import_names("use_kernel_func_from_hub_with_fallback")
config.add_post_import_block(FAST_LINEAR_ATTENTION)
config.add_helper(one_sequence_after_the_other)
config.add_helper(use_kernel_func_from_hub_with_fallback)

# Kernels of the hub, and transformers' own choice of experts, would take the place of what is patched below.
config.drop_decorators("Qwen3_5MoeRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3_5MoeRMSNormGated", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3_5MoeGatedDeltaNet", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3_5MoeGatedDeltaNet", "use_kernelized_func")
config.drop_decorators("Qwen3_5MoeExperts", "use_experts_implementation")

# As in Qwen3.5, no kernel rotates a part of each head: apply_rotary_pos_emb stays upstream's.

config.edit_method(
    "Qwen3_5MoeRMSNorm.forward",
    edit=qwen3_5_rms_norm_forward,
    name_map=_NAMES,
    description="Op slot for RMSNorm",
)
config.edit_method(
    "Qwen3_5MoeRMSNormGated.forward",
    edit=qwen3_5_rms_norm_gated_forward,
    name_map=_NAMES,
    description="Op slot for the RMSNorm before the gate",
)
config.edit_method(
    "Qwen3_5MoeGatedDeltaNet.forward",
    edit=qwen3_5_gated_delta_net_forward,
    name_map=_NAMES,
    description="Packed sequences reach the convolution",
)
# The shared expert is such an MLP as well.
config.override_method(
    "Qwen3_5MoeMLP.forward",
    replacement=llama_mlp_forward,
    name_map={"Llama": "Qwen3_5Moe"},
    description="Op slot for SwiGLU",
)
config.edit_method(
    "Qwen3_5MoeExperts.forward",
    edit=qwen3_moe_experts_forward,
    name_map=_NAMES_OF_QWEN3_MOE,
    description="Op slot for the experts",
)

config.add_helper(needs_dummy_forward)
config.add_helper(Qwen3_5VisionMetadata, name_map=_NAMES)
config.add_helper_after("Qwen3_5MoeModel", Qwen2VLPositions, name_map=_NAMES_OF_QWEN2_VL)
config.override_method(
    "Qwen3_5MoeVisionModel.dummy_forward",
    replacement=qwen2_vl_vision_dummy_forward,
    name_map=_NAMES_OF_QWEN2_VL,
    description="The tower on a batch without pictures",
    add=True,
)
config.override_method(
    "Qwen3_5MoeModel.__init__",
    replacement=qwen3_5_model_init,
    name_map=_NAMES,
    description="The patched sub-models instead of upstream's",
)
# It returns what the text model returns, whatever fields that has.
config.edit_method(
    "Qwen3_5MoeModel.forward",
    edit=qwen2_vl_model_forward,
    name_map=_NAMES_OF_QWEN2_VL,
    description="The vision tower runs on every rank",
)
config.edit_method(
    "Qwen3_5MoeForCausalLM.forward",
    edit=qwen3_moe_for_causal_lm_forward,
    name_map=_NAMES_OF_QWEN3_MOE,
    description="Op slots for the losses",
)


# ================================================================
# Patch: Qwen3_5MoePreTrainedModel._init_weights
# 1. the router by itself - in classes outside of its package transformers passes over modules without own parameters,
#    such as the block that upstream initializes it from
# ================================================================
config.replace_code(
    "Qwen3_5MoePreTrainedModel._init_weights",
    "Qwen3_5MoeSparseMoeBlock",
    "Qwen3_5MoeTopKRouter",
    description="Routers start as upstream's do",
)
config.replace_code("Qwen3_5MoePreTrainedModel._init_weights", "module.gate.weight", "module.weight")


# ================================================================
# Patch: Qwen3_5MoeForConditionalGeneration.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# 2. load-balancing loss by its slot
# ================================================================
config.delete_code(
    "Qwen3_5MoeForConditionalGeneration.forward",
    """
    hidden_states = slice_logits_to_keep(...)
    logits = self.lm_head(...)
    """,
    description="Op slots for the losses",
)


@config.edit_method(
    "Qwen3_5MoeForConditionalGeneration.forward",
    at="""
    if labels is not None:
        loss = self.loss_function(...)
    """,
)
def qwen3_5_moe_for_conditional_generation_forward(self, labels, logits_to_keep, kwargs, hidden_states, shift_labels):
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


@config.edit_method("Qwen3_5MoeForConditionalGeneration.forward", at="aux_loss = load_balancing_loss_func(...)")
def call_balance(self, attention_mask, outputs):
    balance = slot_load_balancing_loss if slot_load_balancing_loss.has_kernel else load_balancing_loss_func
    aux_loss = balance(
        outputs.router_logits,
        self.config.text_config.num_experts,
        self.config.text_config.num_experts_per_tok,
        attention_mask,
    )


config.override_method(
    "Qwen3_5MoeForConditionalGeneration.get_position_id_func",
    replacement=qwen2_vl_get_position_id_func,
    name_map=_NAMES_OF_QWEN2_VL,
    description="Positions for data transforms",
    add=True,
)
config.override_method(
    "Qwen3_5MoeForConditionalGeneration.get_metadata_collate_func",
    replacement=qwen2_vl_get_metadata_collate_func,
    name_map=_NAMES_OF_QWEN2_VL,
    description="Metadata of pictures for collate functions",
    add=True,
)


# ================================================================
# Patch: get_parallel_plan of the two classes that are trained as a whole
# 1. new - a trainer asks the model which parameters it may split
# ================================================================
@config.override_method(
    "Qwen3_5MoeForConditionalGeneration.get_parallel_plan", description="Expert parallel plan for trainers", add=True
)
def qwen3_5_moe_get_parallel_plan(self):
    # --- Patch.1 ---
    from zoo.qwen3_5_moe.parallel_plan import get_parallel_plan

    return get_parallel_plan(type(self))
    # --- Patch.1 ---


config.override_method(
    "Qwen3_5MoeForCausalLM.get_parallel_plan",
    replacement=qwen3_5_moe_get_parallel_plan,
    description="Expert parallel plan for trainers",
    add=True,
)
