"""Qwen2.5-Omni's thinker by op slots: it reads, sees and hears, and its speech half is not in the output.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.qwen2_5_omni.qwen2_5_omni_gpu_patch_gen_config --diff
"""

# A mask comes with what it masks.
# pyright: reportOptionalMemberAccess=false

from typing import TYPE_CHECKING

import torch
from patchgen import PatchConfig
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import (
    Qwen2_5OmniPreTrainedModelForConditionalGeneration,
)

from zoo.llama.llama_gpu_patch_gen_config import llama_apply_rotary_pos_emb, llama_rms_norm_forward
from zoo.qwen2_5_omni.sequence_parallel import qwen2_5_omni_vision_attention_forward
from zoo.qwen2_5_omni.thinker import (
    qwen2_5_omni_thinker_for_conditional_generation_forward,
    qwen2_5_omni_thinker_model_forward,
)
from zoo.qwen2_5_omni.thinker_alone import ThinkerOfQwen2_5Omni
from zoo.qwen2_5_vl.qwen2_5_vl_gpu_patch_gen_config import Qwen2_5_VLVisionMetadata, qwen2_5_vl_vision_mlp_forward
from zoo.qwen2_5_vl.sequence_parallel import qwen2_5_vl_vision_forward
from zoo.qwen2_vl.qwen2_vl_gpu_patch_gen_config import (
    Qwen2VLVisionMetadata,
    needs_dummy_forward,
    qwen2_vl_vision_dummy_forward,
)
from zoo.qwen2_vl.sequence_parallel import (
    SEQUENCE_PARALLEL,
    qwen2_vl_attention_forward,
    qwen2_vl_text_model_forward,
)

if TYPE_CHECKING:
    from transformers import initialization as init
    from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import (
        SinusoidsPositionEmbedding,
        chunk_and_pad_features,
        get_audio_cu_seqlens,
        get_pool_indices,
        get_valid_indices,
        logger,
    )

    from zoo.qwen2_5_omni.generated.patched_modeling_qwen2_5_omni_gpu import Qwen2_5OmniVisionMetadata

config = PatchConfig(
    source_module="transformers.models.qwen2_5_omni.modeling_qwen2_5_omni",
    target_file="patched_modeling_qwen2_5_omni_gpu.py",
    description="Qwen2.5-Omni's thinker with op slots for GPU training",
)

# The talker, the diffusion transformer and the vocoder, with everything that only they use.
config.exclude_from_output(
    "Qwen2_5OmniTalkerCausalLMOutputWithPast",
    "Qwen2_5OmniTalkerModel",
    "Qwen2_5OmniTalkerForConditionalGeneration",
    "Qwen2_5OmniDiTRotaryEmbedding",
    "TimeDelayNetBlock",
    "Res2NetBlock",
    "SqueezeExcitationBlock",
    "AttentiveStatisticsPooling",
    "SqueezeExcitationRes2NetBlock",
    "ECAPA_TimeDelayNet",
    "DiTInputEmbedding",
    "DiTCodecEmbedding",
    "Qwen2_5_OmniAdaLayerNormZero",
    "Qwen2_5_OmniAdaLayerNormZero_Final",
    "DiTMLP",
    "deinterleave_head_dim",
    "DiTAttention",
    "SinusPositionEmbedding",
    "DiTTimestepEmbedding",
    "DiTDecoderLayer",
    "Qwen2_5OmniSnakeBeta",
    "Qwen2_5OmniUpSample1d",
    "Qwen2_5OmniDownSample1d",
    "Qwen2_5OmniAntiAliasedActivation1d",
    "Qwen2_5OmniAMPBlock",
    "Activation1d",
    "UpSample1d",
    "DownSample1d",
    "SnakeBeta",
    "AMPBlock",
    "kaiser_sinc_filter1d",
    "Qwen2_5OmniToken2WavBigVGANModel",
    "RungeKutta4ODESolver",
    "Qwen2_5OmniToken2WavDiTModel",
    "Qwen2_5OmniToken2WavModel",
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=list(SEQUENCE_PARALLEL))
config.add_import("transformers.vision_utils", names=["get_vision_cu_seqlens"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_rotary_pos_emb = OpSlot("rotary_pos_emb", "full")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    """
)

# With kernels of the hub switched on, these would take the place of what is patched below.
config.drop_decorators("Qwen2_5OmniRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen2_5OmniAttention", "use_kernelized_func")

# Text and vision tower have the same class of norm; the audio tower has layer norms, and an MLP without gate.
config.edit_method(
    "Qwen2_5OmniRMSNorm.forward",
    edit=llama_rms_norm_forward,
    name_map={"Llama": "Qwen2_5Omni"},
    description="Op slot for RMSNorm",
)
config.override_method(
    "Qwen2MLP.forward", replacement=qwen2_5_vl_vision_mlp_forward, description="Op slot for SwiGLU in text"
)
config.override_method(
    "Qwen2_5OmniMLP.forward",
    replacement=qwen2_5_vl_vision_mlp_forward,
    description="Op slot for SwiGLU in the vision tower",
)
# The positions of the three axes are put together before this function, which rotates whole heads. That of the vision
# tower computes in float32 whatever the dtype is, which no kernel does: it stays upstream's.
config.edit_function(
    "apply_rotary_pos_emb", edit=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)

config.edit_method(
    "Qwen2_5OmniAttention.forward",
    edit=qwen2_vl_attention_forward,
    name_map={"Qwen2VL": "Qwen2_5Omni"},
    description="Sequence parallel attention",
)
config.edit_method(
    "Qwen2_5OmniThinkerTextModel.forward",
    edit=qwen2_vl_text_model_forward,
    name_map={"Qwen2VL": "Qwen2_5OmniThinker"},
    description="Positions and masks of whole sequences",
)
config.edit_method(
    "Qwen2_5OmniVisionAttention.forward",
    edit=qwen2_5_omni_vision_attention_forward,
    description="Sequence parallel attention in the vision tower",
)
config.edit_method(
    "Qwen2_5OmniVisionEncoder.forward",
    edit=qwen2_5_vl_vision_forward,
    name_map={"Qwen2_5_VisionTransformerPretrainedModel": "Qwen2_5OmniVisionEncoder"},
    description="The vision tower on slices of the patches",
)

config.add_helper(needs_dummy_forward)
config.add_helper(Qwen2VLVisionMetadata)
config.add_helper(Qwen2_5_VLVisionMetadata, name_map={"Qwen2_5_VL": "Qwen2_5Omni"})


@config.add_helper
class Qwen2_5OmniMetadata:
    """Works out on the host what the towers would read back from the device: for a collate function.

    It holds configurations and no weights, and can be sent to the workers of a data loader.
    """

    def __init__(self, config) -> None:
        self.vision = Qwen2_5OmniVisionMetadata(config.vision_config)
        self.audio_config = config.audio_config

    def __call__(
        self, image_grid_thw=None, video_grid_thw=None, input_features=None, feature_attention_mask=None
    ) -> dict:
        """Keyword arguments for ``forward``, of what the processor makes, in host memory."""
        made = self.vision(image_grid_thw, video_grid_thw)
        if input_features is not None:
            frames = input_features.transpose(1, 2)[feature_attention_mask.bool()].T
            heard = Qwen2_5OmniAudioMetadata(self.audio_config).of(frames, feature_attention_mask.sum(-1))
            made.update({f"audio_{name}": value for name, value in heard.items()})
        return made


@config.add_helper
class Qwen2_5OmniAudioMetadata:
    """What the audio tower makes of the lengths of sounds."""

    def __init__(self, config) -> None:
        self.config = config

    def of(self, input_features: torch.Tensor, feature_lens: torch.Tensor) -> dict:
        """What the tower takes for features [mel bins, frames] of sounds of these lengths, one after another."""
        padded_feature, chunk_lengths = chunk_and_pad_features(input_features, feature_lens, self.config.n_window)
        cu_seqlens = get_audio_cu_seqlens(chunk_lengths)
        return {
            "padded_feature": padded_feature,
            "chunk_lengths": chunk_lengths,
            "valid_indices": get_valid_indices(chunk_lengths),
            "pool_indices": get_pool_indices(feature_lens),
            "cu_seqlens": cu_seqlens,
            "max_seqlen": int(cu_seqlens.diff().max()),
        }


@config.add_helper_after("Qwen2_5OmniPreTrainedModelForConditionalGeneration")
class Qwen2_5OmniPositions:
    """Positions of text, pictures, videos and sounds along three axes: for a data transform.

    It holds the configuration and no weights, and can be sent to the workers of a data loader.
    """

    get_llm_pos_ids_for_vision = Qwen2_5OmniPreTrainedModelForConditionalGeneration.get_llm_pos_ids_for_vision
    get_chunked_index = Qwen2_5OmniPreTrainedModelForConditionalGeneration.get_chunked_index
    get_rope_index = Qwen2_5OmniPreTrainedModelForConditionalGeneration.get_rope_index

    def __init__(self, config) -> None:
        self.config, self.spatial_merge_size = config, config.vision_config.spatial_merge_size

    def __call__(self, **inputs) -> dict[str, torch.Tensor]:
        """``position_ids`` [3, batch, sequence] and ``rope_deltas`` [batch, 1] of what ``get_rope_index`` takes.

        Without ``attention_mask`` every token counts.
        """
        if inputs.get("attention_mask") is None:  # get_rope_index needs one for text alone
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        position_ids, rope_deltas = self.get_rope_index(**inputs)
        return {"position_ids": position_ids, "rope_deltas": rope_deltas}


@config.add_helper
def leave_out_speech(module, state_dict: dict, prefix: str, *_) -> None:
    """Take the tensors of talker and vocoder out of a state dict that is about to be loaded."""
    speech = [name for name in state_dict if name.startswith((f"{prefix}talker.", f"{prefix}token2wav."))]
    for name in speech:
        del state_dict[name]
    if speech:
        logger.info(f"{type(module).__name__} leaves out {len(speech)} tensors of talker and token2wav")


# ================================================================
# Patch: Qwen2_5OmniPreTrainedModel._init_weights
# 1. nothing of the vocoder, which is not in this module
# ================================================================
@config.override_method("Qwen2_5OmniPreTrainedModel._init_weights", description="No vocoder to initialize")
def qwen2_5_omni_init_weights(self, module):
    super()._init_weights(module)
    if isinstance(module, SinusoidsPositionEmbedding):
        position_embeddings = module.compute_default_singular_positional_embedding()
        init.copy_(module.positional_embedding, position_embeddings)
    # --- Patch.1 ---
    # elif isinstance(module, (Qwen2_5OmniUpSample1d, Qwen2_5OmniDownSample1d)): ...
    # --- Patch.1 ---


# ================================================================
# Patch: Qwen2_5OmniAudioEncoder.dummy_forward
# 1. new - a rank without sounds takes part in what the ranks of a sharded tower exchange
# ================================================================
@config.override_method(
    "Qwen2_5OmniAudioEncoder.dummy_forward", description="The tower on a batch without sounds", add=True
)
def qwen2_5_omni_audio_dummy_forward(self) -> torch.Tensor:
    """A zero to which every parameter contributes that a sound reaches, of the shortest sound that has a feature.

    The embedding ``audio_bos_eos_token`` is one that no sound reaches.
    """
    # --- Patch.1 ---
    weight = self.conv1.weight
    frames = (self.avg_pooler.kernel_size[0] - 1) * self.conv2.stride[0] + 1
    silence, feature_lens = torch.zeros(self.num_mel_bins, frames, dtype=weight.dtype), torch.tensor([frames])
    metadata = Qwen2_5OmniAudioMetadata(self.config).of(silence, feature_lens)
    made = {key: v.to(weight.device) if isinstance(v, torch.Tensor) else v for key, v in metadata.items()}
    output = self(silence, feature_lens=feature_lens, return_dict=True, **made)
    return (output.last_hidden_state * 0.0).sum()
    # --- Patch.1 ---


config.override_method(
    "Qwen2_5OmniVisionEncoder.dummy_forward",
    replacement=qwen2_vl_vision_dummy_forward,
    name_map={"Qwen2VL": "Qwen2_5Omni"},
    description="The tower on a batch without pictures",
    add=True,
)


config.edit_method(
    "Qwen2_5OmniThinkerModel.forward",
    edit=qwen2_5_omni_thinker_model_forward,
    description="The towers run on every rank",
)


config.edit_method(
    "Qwen2_5OmniThinkerForConditionalGeneration.forward",
    edit=qwen2_5_omni_thinker_for_conditional_generation_forward,
    description="Op slot for the loss",
)


# ================================================================
# Patch: Qwen2_5OmniThinkerForConditionalGeneration.get_position_id_func
# 1. new - positions are made where the data is prepared, before sequences are packed or split over ranks
# ================================================================
@config.override_method(
    "Qwen2_5OmniThinkerForConditionalGeneration.get_position_id_func",
    description="Positions for data transforms",
    add=True,
)
def qwen2_5_omni_get_position_id_func(self):
    """What makes the positions of a sample; it can be pickled."""
    # --- Patch.1 ---
    return Qwen2_5OmniPositions(self.config)
    # --- Patch.1 ---


# ================================================================
# Patch: Qwen2_5OmniThinkerForConditionalGeneration.get_metadata_collate_func
# 1. new - what depends on the sizes of pictures and the lengths of sounds is made on the host
# ================================================================
@config.override_method(
    "Qwen2_5OmniThinkerForConditionalGeneration.get_metadata_collate_func",
    description="Metadata of pictures and sounds for collate functions",
    add=True,
)
def qwen2_5_omni_get_metadata_collate_func(self):
    """What makes the keyword arguments of ``forward`` that follow from a batch's media; it can be pickled."""
    # --- Patch.1 ---
    return Qwen2_5OmniMetadata(self.config)
    # --- Patch.1 ---


# Upstream's class of this name has no forward and other parameters, so parity has nothing to compare it with.
config.allow(
    "PG301",
    "test_zoo_omni loads upstream's whole checkpoints into it and compares it with upstream's thinker",
    "Qwen2_5OmniForConditionalGeneration",
)
config.allow(
    "PG301",
    "data pipelines call it, and test_zoo_multimodal",
    "Qwen2_5OmniThinkerForConditionalGeneration.get_position_id_func",
)


config.replace_class(
    "Qwen2_5OmniForConditionalGeneration",
    replacement=ThinkerOfQwen2_5Omni,
    description="The thinker alone, trained as a whole",
)
