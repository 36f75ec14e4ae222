"""What upstream did to the targets of the zoo's patches, release by release.

Written by hand from upstream's own texts, not by the tool that is tested against it. What is not named here is
unchanged in every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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

What = Literal["cosmetic", "changed", "signature changed", "decorators changed", "appears"]
"""What happens to a target in a step: a kind of :mod:`patchgen_core.upgrade.results`, or that it ``appears``: the
release before lacks it. No target of today's zoo goes on the way to today."""


@dataclass(frozen=True)
class Step:
    """Something that happens to a target.

    Attributes:
        release: the release that does it to the one before it.
        what: the verdict.
        why: what upstream did.
    """

    release: str
    what: What
    why: str


ADDED = "added"
"""The zoo adds it: no release has it."""

# --- what happens to many models in the same way ---------------------------------------------------

TENSOR_HINTS = Step("5.23.0", "cosmetic", "torch.FloatTensor becomes torch.Tensor in annotations")
CONFIG_HINT = Step("5.23.0", "cosmetic", "config: is annotated")
LABELS_TEXT = Step("5.18.0", "cosmetic", "the docstring no longer says what labels are")
GRID_TEXT = Step("5.15.1", "cosmetic", "the docstring no longer says what the grids are")
LOGITS = Step("5.21.1", "changed", "slice_logits_to_keep takes the place of slicing in line")
EXPERTS = Step("5.18.0", "changed", "the mask of experts has one class more, for tokens that no expert here is for")
KERNEL_FUNCTION = Step("5.15.1", "decorators changed", "use_kernel_func_from_hub becomes use_kernel_forward_from_hub")
ROPE_DELTAS = Step("5.10.4", "signature changed", "rope_deltas is no parameter any more, and deprecate_kwarg says so")
NO_DEPRECATION = Step("5.15.1", "decorators changed", "deprecate_kwarg is gone; the docstring no longer has the grids")
DOCUMENTED = Step("5.15.1", "decorators changed", "auto_docstring, and less text in the docstring")
ENCODER_OUTPUTS = Step("5.18.0", "signature changed", "mm_encoder_outputs: features that were computed before")
LOSS_KWARGS = Step("5.17.0", "changed", "loss_function takes **kwargs")
OUTPUTS = Step("5.23.0", "changed", "returns what the text model returns, without rope_deltas; torch.Tensor in hints")
PLAIN_OUTPUT = Step("5.23.0", "changed", "returns the plain output class, without rope_deltas; torch.Tensor in hints")
AUTO_MODELS = Step("5.11.0", "changed", "AutoModel.from_config makes the tower and the text model")

INHERITED = (Step("5.23.0", "cosmetic", "annotations of what it inherits from GenericForSequenceClassification"),)

ROTARY = (KERNEL_FUNCTION,)
CAUSAL_LM = (LOGITS, TENSOR_HINTS)
CAUSAL_LM_WITH_TEXT = (LABELS_TEXT, LOGITS, TENSOR_HINTS)
MULTIMODAL_ROTARY = (Step("5.17.0", "appears", "apply_multimodal_rotary_pos_emb, of another signature, goes for it"),)
MODEL_OF_QWEN2_VL = (ROPE_DELTAS, NO_DEPRECATION, ENCODER_OUTPUTS, OUTPUTS)
CONDITIONAL_OF_QWEN2_VL = (ROPE_DELTAS, NO_DEPRECATION, ENCODER_OUTPUTS, LOGITS, PLAIN_OUTPUT)
INIT_OF_QWEN3_VL = (AUTO_MODELS, CONFIG_HINT)
MODEL_OF_QWEN3_VL = (GRID_TEXT, ENCODER_OUTPUTS, OUTPUTS)
ROUTER_LOGITS = Step("5.18.0", "signature changed", "mm_encoder_outputs, and output_router_logits out of **kwargs")
CONDITIONAL_OF_QWEN3_VL = (DOCUMENTED, LOSS_KWARGS, ENCODER_OUTPUTS, LOGITS, PLAIN_OUTPUT)
CONDITIONAL_OF_QWEN3_VL_MOE = (DOCUMENTED, LOSS_KWARGS, ROUTER_LOGITS, LOGITS, PLAIN_OUTPUT)
NAIVE_EXPERTS = (Step("5.13.1", "appears", "the class was called NaiveMoe"), EXPERTS)
CAUSAL_LM_OF_DEEPSEEK = (
    Step("5.19.0", "changed", "returns router logits in the output class of experts' models"),
    LOGITS,
    TENSOR_HINTS,
)
GATED_NORM = (
    Step("5.15.1", "changed", "the activation is the config's, not always SiLU"),
    Step("5.17.0", "signature changed", "gate has no default any more"),
)
GATED_DELTA_NET = (
    Step("5.13.1", "decorators changed", "force_accelerate_hooks"),
    Step("5.14.1", "changed", "states in the cache are lists"),
    Step("5.15.1", "changed", "kernels are functions of the module; the cache keeps the state of the convolution"),
    Step("5.16.1", "changed", "has_previous_state is asked with state_idx"),
    Step("5.21.1", "changed", "the states come from get_conv_state and get_recurrent_state"),
    Step("5.23.0", "changed", "keys and queries are no longer repeated for the heads of the values"),
)

# --- towers and text models that ranks share --------------------------------------------------------

VISION_ATTENTION = (
    Step("5.10.4", "signature changed", "rotary_pos_emb is no parameter any more, and deprecate_kwarg says so"),
    Step("5.15.1", "signature changed", "max_seqlen; get_max_seqlen finds it out where it is not given"),
)
VISION_ATTENTION_OF_OMNI = (
    Step("5.10.4", "signature changed", "rotary_pos_emb becomes position_embeddings, and deprecate_kwarg says so"),
    Step("5.15.1", "signature changed", "max_seqlen; get_max_seqlen finds it out where it is not given"),
    Step("5.17.0", "changed", "position_embeddings are cosines and sines"),
    Step("5.23.0", "decorators changed", "deprecate_kwarg is gone"),
)
RENAMED_EMBEDDINGS = Step("5.10.4", "changed", "what attention is given is called position_embeddings")
LONGEST = Step("5.15.1", "changed", "the length of the longest sequence comes with their ends")
COS_AND_SIN = Step("5.17.0", "changed", "rotary_pos_emb gives cosines and sines")
WINDOWS = Step("5.17.0", "changed", "permute_input_for_window_attn; rotary_pos_emb gives cosines and sines")
TOWER = (LONGEST, COS_AND_SIN)
TOWER_OF_WINDOWS = (LONGEST, WINDOWS)
TOWER_OF_QWEN3_VL = (
    Step("5.15.1", "changed", "positions are interpolated as the config says; the longest sequence's length"),
    COS_AND_SIN,
)
ATTENTION_OF_QWEN2_VL = (
    Step("5.17.0", "signature changed", "no output_attentions, no use_cache; the rotary function knows its sections"),
)
TEXT_MODEL_OF_QWEN2_VL = (Step("5.13.1", "cosmetic", "a slip of the pen in a comment"), TENSOR_HINTS)

# --- model by model --------------------------------------------------------------------------------

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
