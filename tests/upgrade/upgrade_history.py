"""What upstream did to the targets of the zoo's patches, release by release.

Written by hand from upstream's own texts, not by the tool that is tested against it. What is not named here is
unchanged in every step.
"""

from __future__ import annotations

from typing import Literal

from tests.upgrade.upstream_steps import (
    ADDED,
    ATTENTION_OF_QWEN2_VL,
    CAUSAL_LM,
    CAUSAL_LM_OF_DEEPSEEK,
    CAUSAL_LM_WITH_TEXT,
    CONDITIONAL_OF_QWEN2_VL,
    CONDITIONAL_OF_QWEN3_VL,
    CONDITIONAL_OF_QWEN3_VL_MOE,
    ENCODER_OUTPUTS,
    EXPERTS,
    GATED_DELTA_NET,
    GATED_NORM,
    INHERITED,
    INIT_OF_QWEN3_VL,
    KERNEL_FUNCTION,
    LOGITS,
    LOSS_KWARGS,
    MODEL_OF_QWEN2_VL,
    MODEL_OF_QWEN3_VL,
    MULTIMODAL_ROTARY,
    NAIVE_EXPERTS,
    PLAIN_OUTPUT,
    RENAMED_EMBEDDINGS,
    ROPE_DELTAS,
    ROTARY,
    TENSOR_HINTS,
    TEXT_MODEL_OF_QWEN2_VL,
    TOWER,
    TOWER_OF_QWEN3_VL,
    TOWER_OF_WINDOWS,
    VISION_ATTENTION,
    VISION_ATTENTION_OF_OMNI,
    Step,
)

RELEASES = (
    "5.9.0",
    "5.10.4",
    "5.11.0",
    "5.12.1",
    "5.13.1",
    "5.14.1",
    "5.15.1",
    "5.16.1",
    "5.17.0",
    "5.18.0",
    "5.19.0",
    "5.20.2",
    "5.21.1",
    "5.22.2",
    "5.23.0",
)
"""The last patch release of each minor one, from the oldest that the table is about to the zoo's own."""

HISTORY: dict[str, dict[str, tuple[Step, ...] | Literal["added"]]] = {
    "deepseek_v3": {
        "DeepseekV3Experts.forward": NAIVE_EXPERTS,
        "DeepseekV3Attention.forward": (
            Step("5.15.1", "changed", "expand_kv makes keys and values of latents, and values are no longer padded"),
        ),
        "DeepseekV3Model.forward": (
            Step("5.19.0", "changed", "returns the output class of experts' models"),
            TENSOR_HINTS,
        ),
        "DeepseekV3ForCausalLM.forward": CAUSAL_LM_OF_DEEPSEEK,
        "DeepseekV3ForSequenceClassification.forward": INHERITED,
        "DeepseekV3ForCausalLM.get_parallel_plan": ADDED,
    },
    "gemma3": {
        "apply_rotary_pos_emb": ROTARY,
        "Gemma3ForCausalLM.forward": CAUSAL_LM,
        "Gemma3Model.__init__": (Step("5.20.2", "changed", "from_config by position; no local for the text model"),),
        "Gemma3Model.dummy_forward": ADDED,
        "Gemma3Model.get_placeholder_mask": (
            Step("5.12.1", "changed", "the mask is no longer expanded over hidden states"),
            Step("5.15.1", "changed", "the placeholder's id comes from torch.full"),
            TENSOR_HINTS,
        ),
        "Gemma3TextModel.forward": (TENSOR_HINTS,),
        "Gemma3Model.forward": (
            Step("5.13.1", "changed", "create_masks_for_vision_model and create_masks_for_generate make the masks"),
            Step("5.18.0", "signature changed", "mm_encoder_outputs; lm_kwargs are called kwargs"),
            TENSOR_HINTS,
        ),
        "Gemma3ForConditionalGeneration.forward": (
            Step("5.17.0", "changed", "loss_function instead of a loss in line that leaves padding out"),
            Step("5.18.0", "signature changed", "mm_encoder_outputs; lm_kwargs are called kwargs"),
            LOGITS,
            TENSOR_HINTS,
        ),
        "Gemma3TextForSequenceClassification.forward": INHERITED,
        "Gemma3ForSequenceClassification.classify_sequences": ADDED,
        "Gemma3ForSequenceClassification.forward": (TENSOR_HINTS,),
    },
    "glm_moe_dsa": {
        "GlmMoeDsaExperts.forward": NAIVE_EXPERTS,
        "GlmMoeDsaIndexer.forward": (
            Step("5.11.0", "signature changed", "keys are cached with all others; position_ids and past_key_values"),
            Step("5.13.1", "changed", "neighbouring pairs are rotated, and no longer halves"),
            Step("5.17.0", "changed", "there is always a mask, which may be one of booleans"),
        ),
        "GlmMoeDsaAttention.forward": (
            Step("5.11.0", "signature changed", "position_ids; written anew, with the lines of DeepSeek-V3"),
            Step("5.15.1", "changed", "expand_kv makes keys and values of latents"),
            Step("5.17.0", "changed", "there is always a mask, which may be one of booleans"),
            Step("5.18.0", "changed", "latents are cached, not what is made of them"),
        ),
        "GlmMoeDsaModel.forward": (
            Step("5.11.0", "cosmetic", "comments tell it from DeepSeek-V3.2"),
            Step("5.14.1", "changed", "masks may have been made before, one for each kind of layer"),
            Step("5.17.0", "changed", "the mask is made even where the kernel would do without"),
            Step("5.18.0", "changed", "the mask's name is indexed_attention"),
            Step("5.19.0", "changed", "returns the output class of experts' models"),
            TENSOR_HINTS,
        ),
        "GlmMoeDsaForCausalLM.forward": CAUSAL_LM_OF_DEEPSEEK,
        "GlmMoeDsaForCausalLM.get_parallel_plan": ADDED,
    },
    "gpt_oss": {
        "apply_rotary_pos_emb": (
            Step("5.13.1", "signature changed", "position_ids, which nothing read, is no parameter any more"),
            KERNEL_FUNCTION,
        ),
        "GptOssModel.forward": (TENSOR_HINTS,),
        "GptOssForCausalLM.forward": CAUSAL_LM_WITH_TEXT,
        "GptOssForSequenceClassification.forward": INHERITED,
        "GptOssForCausalLM.get_parallel_plan": ADDED,
    },
    "llama": {
        "apply_rotary_pos_emb": ROTARY,
        "LlamaModel.forward": (TENSOR_HINTS,),
        "LlamaForCausalLM.forward": CAUSAL_LM,
        "LlamaForSequenceClassification.forward": INHERITED,
    },
    "mistral": {
        "apply_rotary_pos_emb": ROTARY,
        "MistralModel.forward": (TENSOR_HINTS,),
        "MistralForCausalLM.forward": CAUSAL_LM,
        "MistralForSequenceClassification.forward": INHERITED,
    },
    "mixtral": {
        "apply_rotary_pos_emb": ROTARY,
        "MixtralExperts.forward": (EXPERTS,),
        "MixtralModel.forward": (TENSOR_HINTS,),
        "MixtralForCausalLM.forward": CAUSAL_LM_WITH_TEXT,
        "MixtralForSequenceClassification.forward": INHERITED,
        "MixtralForCausalLM.get_parallel_plan": ADDED,
    },
    "qwen2": {
        "apply_rotary_pos_emb": ROTARY,
        "Qwen2Model.forward": (TENSOR_HINTS,),
        "Qwen2ForCausalLM.forward": CAUSAL_LM,
        "Qwen2ForSequenceClassification.forward": INHERITED,
    },
    "qwen2_5_omni": {
        "Qwen2_5OmniVisionAttention.forward": VISION_ATTENTION_OF_OMNI,
        "Qwen2_5OmniVisionEncoder.forward": (RENAMED_EMBEDDINGS, *TOWER_OF_WINDOWS),
        "Qwen2_5OmniAttention.forward": ATTENTION_OF_QWEN2_VL,
        "Qwen2_5OmniThinkerTextModel.forward": TEXT_MODEL_OF_QWEN2_VL,
        "apply_rotary_pos_emb": (
            Step("5.15.1", "decorators changed", "use_kernel_forward_from_hub; halves are rotated, not pairs"),
        ),
        "Qwen2_5OmniPreTrainedModel._init_weights": (
            Step("5.13.1", "changed", "the sinusoids' module computes them; classes of the vocoder have longer names"),
            Step("5.17.0", "changed", "the vision tower's frequencies are left to the base class"),
        ),
        "Qwen2_5OmniAudioEncoder.dummy_forward": ADDED,
        "Qwen2_5OmniVisionEncoder.dummy_forward": ADDED,
        "Qwen2_5OmniThinkerModel.forward": (
            Step("5.21.1", "appears", "the thinker is split into a model and its head"),
            TENSOR_HINTS,
        ),
        "Qwen2_5OmniThinkerForConditionalGeneration.forward": (
            ROPE_DELTAS,
            Step("5.15.1", "decorators changed", "deprecate_kwarg is gone; features come one tensor a picture"),
            Step("5.16.1", "changed", "compute_3d_position_ids has what stood in line"),
            LOSS_KWARGS,
            ENCODER_OUTPUTS,
            Step("5.21.1", "changed", "most of it moves to Qwen2_5OmniThinkerModel.forward"),
            PLAIN_OUTPUT,
        ),
        "Qwen2_5OmniThinkerForConditionalGeneration.get_position_id_func": ADDED,
        "Qwen2_5OmniThinkerForConditionalGeneration.get_metadata_collate_func": ADDED,
        "Qwen2_5OmniForConditionalGeneration": (
            Step("5.12.1", "changed", "generate: masks are not expanded"),
            Step("5.15.1", "changed", "generate: speech for a batch"),
            Step("5.23.0", "changed", "generate: return_audio is no longer translated"),
        ),
    },
    "qwen2_5_vl": {
        "Qwen2_5_VLVisionAttention.forward": VISION_ATTENTION,
        "Qwen2_5_VisionTransformerPretrainedModel.forward": TOWER_OF_WINDOWS,
        "Qwen2_5_VLAttention.forward": ATTENTION_OF_QWEN2_VL,
        "Qwen2_5_VLTextModel.forward": TEXT_MODEL_OF_QWEN2_VL,
        "apply_rotary_pos_emb": MULTIMODAL_ROTARY,
        "Qwen2_5_VisionTransformerPretrainedModel.dummy_forward": ADDED,
        "Qwen2_5_VLModel.forward": MODEL_OF_QWEN2_VL,
        "Qwen2_5_VLForConditionalGeneration.forward": CONDITIONAL_OF_QWEN2_VL,
        "Qwen2_5_VLForConditionalGeneration.get_position_id_func": ADDED,
        "Qwen2_5_VLForConditionalGeneration.get_metadata_collate_func": ADDED,
    },
    "qwen2_vl": {
        "VisionAttention.forward": VISION_ATTENTION,
        "Qwen2VisionTransformerPretrainedModel.forward": TOWER,
        "Qwen2VLAttention.forward": ATTENTION_OF_QWEN2_VL,
        "Qwen2VLTextModel.forward": TEXT_MODEL_OF_QWEN2_VL,
        "apply_rotary_pos_emb": MULTIMODAL_ROTARY,
        "Qwen2VisionTransformerPretrainedModel.dummy_forward": ADDED,
        "Qwen2VLModel.forward": MODEL_OF_QWEN2_VL,
        "Qwen2VLForConditionalGeneration.forward": CONDITIONAL_OF_QWEN2_VL,
        "Qwen2VLForConditionalGeneration.get_position_id_func": ADDED,
        "Qwen2VLForConditionalGeneration.get_metadata_collate_func": ADDED,
    },
    "qwen3": {
        "apply_rotary_pos_emb": ROTARY,
        "Qwen3Model.forward": (TENSOR_HINTS,),
        "Qwen3ForCausalLM.forward": CAUSAL_LM_WITH_TEXT,
        "Qwen3ForSequenceClassification.forward": INHERITED,
    },
    "qwen3_5": {
        "Qwen3_5RMSNormGated.forward": GATED_NORM,
        "Qwen3_5GatedDeltaNet.forward": GATED_DELTA_NET,
        "Qwen3_5VisionModel.dummy_forward": ADDED,
        "Qwen3_5Model.__init__": INIT_OF_QWEN3_VL,
        "Qwen3_5Model.forward": MODEL_OF_QWEN3_VL,
        "Qwen3_5ForCausalLM.forward": CAUSAL_LM_WITH_TEXT,
        "Qwen3_5ForConditionalGeneration.forward": CONDITIONAL_OF_QWEN3_VL,
        "Qwen3_5ForConditionalGeneration.get_position_id_func": ADDED,
        "Qwen3_5ForConditionalGeneration.get_metadata_collate_func": ADDED,
        "Qwen3_5TextForSequenceClassification.forward": INHERITED,
        "Qwen3_5ForSequenceClassification.forward": (TENSOR_HINTS,),
    },
    "qwen3_5_moe": {
        "Qwen3_5MoeRMSNormGated.forward": GATED_NORM,
        "Qwen3_5MoeGatedDeltaNet.forward": GATED_DELTA_NET,
        "Qwen3_5MoeExperts.forward": (EXPERTS,),
        "Qwen3_5MoeVisionModel.dummy_forward": ADDED,
        "Qwen3_5MoeModel.__init__": INIT_OF_QWEN3_VL,
        "Qwen3_5MoeModel.forward": MODEL_OF_QWEN3_VL,
        "Qwen3_5MoeForCausalLM.forward": CAUSAL_LM_WITH_TEXT,
        "Qwen3_5MoePreTrainedModel._init_weights": (
            Step("5.16.1", "changed", "A_log is drawn from 0.01 on, for as many heads as there are"),
            Step("5.17.0", "changed", "the vision tower's frequencies are left to the base class"),
        ),
        "Qwen3_5MoeForConditionalGeneration.forward": CONDITIONAL_OF_QWEN3_VL_MOE,
        "Qwen3_5MoeForConditionalGeneration.get_position_id_func": ADDED,
        "Qwen3_5MoeForConditionalGeneration.get_metadata_collate_func": ADDED,
        "Qwen3_5MoeForConditionalGeneration.get_parallel_plan": ADDED,
        "Qwen3_5MoeForCausalLM.get_parallel_plan": ADDED,
    },
    "qwen3_moe": {
        "apply_rotary_pos_emb": ROTARY,
        "Qwen3MoeExperts.forward": (EXPERTS,),
        "Qwen3MoeModel.forward": (TENSOR_HINTS,),
        "Qwen3MoeForCausalLM.forward": CAUSAL_LM_WITH_TEXT,
        "Qwen3MoeForSequenceClassification.forward": INHERITED,
        "Qwen3MoeForCausalLM.get_parallel_plan": ADDED,
    },
    "qwen3_omni_moe": {
        "Qwen3OmniMoeVisionAttention.forward": VISION_ATTENTION,
        "Qwen3OmniMoeVisionEncoder.forward": TOWER_OF_QWEN3_VL,
        "Qwen3OmniMoeThinkerTextModel.forward": (TENSOR_HINTS,),
        "Qwen3OmniMoeThinkerTextExperts.forward": (EXPERTS,),
        "apply_rotary_pos_emb": ROTARY,
        "Qwen3OmniMoePreTrainedModel": (
            Step("5.13.1", "changed", "_init_weights: initializer_range may be missing; the sinusoids' module"),
            Step("5.15.1", "changed", "_no_split_modules names other layers"),
            Step("5.17.0", "changed", "_init_weights: the vision tower's frequencies are left to the base class"),
        ),
        "Qwen3OmniMoeAudioEncoder.dummy_forward": ADDED,
        "Qwen3OmniMoeVisionEncoder.dummy_forward": ADDED,
        "Qwen3OmniMoeThinkerModel.forward": (
            Step("5.21.1", "appears", "the thinker is split into a model and its head"),
        ),
        "Qwen3OmniMoeThinkerForConditionalGeneration.forward": (
            Step("5.10.4", "signature changed", "rope_deltas is no parameter any more"),
            Step("5.15.1", "changed", "features come one tensor a picture"),
            Step("5.16.1", "changed", "compute_3d_position_ids has what stood in line"),
            LOSS_KWARGS,
            ENCODER_OUTPUTS,
            Step("5.21.1", "changed", "most of it moves to Qwen3OmniMoeThinkerModel.forward"),
            PLAIN_OUTPUT,
        ),
        "Qwen3OmniMoeThinkerForConditionalGeneration.get_position_id_func": ADDED,
        "Qwen3OmniMoeThinkerForConditionalGeneration.get_metadata_collate_func": ADDED,
        "Qwen3OmniMoeThinkerForConditionalGeneration.get_parallel_plan": ADDED,
        "Qwen3OmniMoeForConditionalGeneration": (
            Step("5.13.1", "changed", "generate: a local variable's name is spelled right"),
            Step("5.15.1", "changed", "generate: speech for a batch"),
            Step("5.21.1", "changed", "generate takes generation_mode"),
            Step("5.22.2", "changed", "config_class becomes an annotation"),
        ),
    },
    "qwen3_vl": {
        "Qwen3VLVisionAttention.forward": VISION_ATTENTION,
        "Qwen3VLVisionModel.forward": TOWER_OF_QWEN3_VL,
        "Qwen3VLTextModel.forward": (TENSOR_HINTS,),
        "apply_rotary_pos_emb": ROTARY,
        "Qwen3VLVisionModel.dummy_forward": ADDED,
        "Qwen3VLModel.__init__": INIT_OF_QWEN3_VL,
        "Qwen3VLModel.forward": MODEL_OF_QWEN3_VL,
        "Qwen3VLForConditionalGeneration.forward": CONDITIONAL_OF_QWEN3_VL,
        "Qwen3VLForConditionalGeneration.get_position_id_func": ADDED,
        "Qwen3VLForConditionalGeneration.get_metadata_collate_func": ADDED,
    },
    "qwen3_vl_moe": {
        "Qwen3VLMoeVisionAttention.forward": VISION_ATTENTION,
        "Qwen3VLMoeVisionModel.forward": TOWER_OF_QWEN3_VL,
        "Qwen3VLMoeTextModel.forward": (TENSOR_HINTS,),
        "Qwen3VLMoeTextExperts.forward": (EXPERTS,),
        "apply_rotary_pos_emb": ROTARY,
        "Qwen3VLMoeVisionModel.dummy_forward": ADDED,
        "Qwen3VLMoeModel.__init__": INIT_OF_QWEN3_VL,
        "Qwen3VLMoeModel.forward": MODEL_OF_QWEN3_VL,
        "Qwen3VLMoeForConditionalGeneration.forward": CONDITIONAL_OF_QWEN3_VL_MOE,
        "Qwen3VLMoeForConditionalGeneration.get_position_id_func": ADDED,
        "Qwen3VLMoeForConditionalGeneration.get_metadata_collate_func": ADDED,
        "Qwen3VLMoeForConditionalGeneration.get_parallel_plan": ADDED,
    },
    "seed_oss": {
        "apply_rotary_pos_emb": ROTARY,
        "SeedOssModel.forward": (TENSOR_HINTS,),
        "SeedOssForCausalLM.forward": CAUSAL_LM_WITH_TEXT,
        "SeedOssForSequenceClassification.forward": INHERITED,
    },
}


FORMER = {"deepseek_v3": ("DeepseekV3NaiveMoe.forward",), "glm_moe_dsa": ("GlmMoeDsaNaiveMoe.forward",)}
"""Targets that only an older zoo has: 5.13.1 gives the class its present name."""


def verdict_of(model: str, target: str, release: str) -> str:
    """What a release does to a target, in the words of :mod:`patchgen_core.upgrade.results`."""
    if target in FORMER.get(model, ()):
        return "moved" if release == "5.13.1" else "unchanged"
    history = HISTORY[model].get(target, ())
    if isinstance(history, str):
        return history
    for step in history:
        if step.release == release:
            return "new code" if step.what == "appears" else step.what
    first = next((step.release for step in history if step.what == "appears"), RELEASES[0])
    return "gone" if RELEASES.index(release) < RELEASES.index(first) else "unchanged"
