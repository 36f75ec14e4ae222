"""Qwen3-Omni-MoE's thinker by op slots: Qwen2.5-Omni without its speech half, with Qwen3-VL's eyes and experts.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.qwen3_omni_moe.qwen3_omni_moe_gpu_patch_gen_config --diff
"""

# As upstream's, the class has a tuple for a list, and its parameters may be modules.
# pyright: reportAssignmentType=false, reportArgumentType=false

from typing import TYPE_CHECKING

import torch
from patchgen import PatchConfig
from transformers import PreTrainedModel, Qwen3OmniMoeConfig
from transformers import initialization as init
from transformers.utils import auto_docstring

from zoo.llama.llama_gpu_patch_gen_config import (
    llama_apply_rotary_pos_emb,
    llama_mlp_forward,
    llama_rms_norm_forward,
)
from zoo.qwen2_5_omni.qwen2_5_omni_gpu_patch_gen_config import (
    Qwen2_5OmniMetadata,
    Qwen2_5OmniPositions,
    leave_out_speech,
    qwen2_5_omni_get_metadata_collate_func,
    qwen2_5_omni_get_position_id_func,
)
from zoo.qwen2_vl.qwen2_vl_gpu_patch_gen_config import Qwen2VLVisionMetadata, needs_dummy_forward
from zoo.qwen2_vl.sequence_parallel import SEQUENCE_PARALLEL, qwen2_vl_vision_attention_forward
from zoo.qwen3.qwen3_gpu_patch_gen_config import qwen3_attention_forward
from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import qwen3_moe_experts_forward
from zoo.qwen3_omni_moe.thinker import (
    qwen3_omni_moe_thinker_for_conditional_generation_forward,
    qwen3_omni_moe_thinker_model_forward,
)
from zoo.qwen3_omni_moe.thinker_alone import ThinkerOfQwen3OmniMoe
from zoo.qwen3_vl.qwen3_vl_gpu_patch_gen_config import Qwen3VLVisionMetadata, qwen3_vl_vision_dummy_forward
from zoo.qwen3_vl.sequence_parallel import qwen3_vl_text_model_forward, qwen3_vl_vision_forward

if TYPE_CHECKING:
    from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import (
        Qwen3OmniMoeThinkerTextExperts,
        Qwen3OmniMoeThinkerTextTopKRouter,
        SinusoidsPositionEmbedding,
        chunk_and_pad_features,
        get_audio_cu_seqlens,
        get_valid_indices,
    )

_OF_QWEN2_5_OMNI = {"Qwen2_5Omni": "Qwen3OmniMoe", "token2wav": "code2wav"}
_OF_QWEN3_VL = {"Qwen3VLVisionModel": "Qwen3OmniMoeVisionEncoder", "Qwen3VL": "Qwen3OmniMoe"}

config = PatchConfig(
    source_module="transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe",
    target_file="patched_modeling_qwen3_omni_moe_gpu.py",
    description="Qwen3-Omni-MoE's thinker with op slots for GPU training",
)

# The talker and the vocoder, with everything that only they use, whatever it is called.
config.exclude_from_output(
    "Qwen3OmniMoeThinkerTextPreTrainedModel",
    "Qwen3OmniMoeTalkerResizeMLP",
    "Qwen3OmniMoeTalkerCodePredictorOutputWithPast",
    "Qwen3OmniMoeRMSNorm",
    "Qwen3OmniMoeTalkerCodePredictorAttention",
    "Qwen3OmniMoeMLP",
    "Qwen3OmniMoeTalkerCodePredictorDecoderLayer",
    "Qwen3OmniMoeRotaryEmbedding",
    "Qwen3OmniMoeTalkerCodePredictorModel",
    "Qwen3OmniMoeTalkerCodePredictorModelForConditionalGeneration",
    "Qwen3OmniMoeTalkerOutputWithPast",
    "Qwen3OmniMoeTalkerRotaryEmbedding",
    "Qwen3OmniMoeTalkerTextMLP",
    "Qwen3OmniMoeTalkerTextTopKRouter",
    "Qwen3OmniMoeTalkerTextExperts",
    "Qwen3OmniMoeTalkerTextSparseMoeBlock",
    "Qwen3OmniMoeTalkerDecoderLayer",
    "Qwen3OmniMoeTalkerModel",
    "Qwen3OmniMoeTalkerForConditionalGeneration",
    "Qwen3OmniMoeCausalConvNet",
    "Qwen3OmniMoeCausalTransConvNet",
    "Qwen3OmniMoeConvNeXtBlock",
    "Qwen3OmniMoeCode2WavAttention",
    "Qwen3OmniMoeCode2WavMlp",
    "Qwen3OmniMoeCode2WavRMSNorm",
    "Qwen3OmniMoeCode2WavLayerScale",
    "Qwen3OmniMoeCode2WavTransformerLayer",
    "Qwen3OmniMoeCode2WavTransformerModel",
    "Qwen3OmniMoeSnakeBeta",
    "SnakeBeta",
    "Qwen3OmniMoeCode2WavDecoderResidualUnit",
    "Qwen3OmniMoeCode2WavDecoderBlock",
    "Qwen3OmniMoeCode2Wav",
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
config.drop_decorators("Qwen3OmniMoeThinkerTextRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3OmniMoeTextRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3OmniMoeThinkerTextAttention", "use_kernelized_func")
config.drop_decorators("Qwen3OmniMoeThinkerTextExperts", "use_experts_implementation")

# Both towers have layer norms and MLPs without a gate, which no slot here is for: they stay upstream's.
config.edit_method(
    "Qwen3OmniMoeThinkerTextRMSNorm.forward",
    edit=llama_rms_norm_forward,
    name_map={"Llama": "Qwen3OmniMoeThinkerText"},
    description="Op slot for RMSNorm in the layers",
)
config.edit_method(
    "Qwen3OmniMoeTextRMSNorm.forward",
    edit=llama_rms_norm_forward,
    name_map={"Llama": "Qwen3OmniMoeText"},
    description="Op slot for RMSNorm behind the layers",
)
config.override_method(
    "Qwen3OmniMoeThinkerTextMLP.forward",
    replacement=llama_mlp_forward,
    name_map={"Llama": "Qwen3OmniMoeThinkerText"},
    description="Op slot for SwiGLU in layers without experts",
)
config.edit_method(
    "Qwen3OmniMoeThinkerTextExperts.forward",
    edit=qwen3_moe_experts_forward,
    name_map={"Qwen3Moe": "Qwen3OmniMoeThinkerText"},
    description="Op slot for the experts",
)
# The positions of the three axes are interleaved before this function, which rotates whole heads. That of the vision
# tower computes in float32 whatever the dtype is, which no kernel does: it stays upstream's.
config.edit_function(
    "apply_rotary_pos_emb", edit=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)

config.edit_method(
    "Qwen3OmniMoeThinkerTextAttention.forward",
    edit=qwen3_attention_forward,
    name_map={"Qwen3": "Qwen3OmniMoeThinkerText"},
    description="Sequence parallel attention",
)
config.edit_method(
    "Qwen3OmniMoeThinkerTextModel.forward",
    edit=qwen3_vl_text_model_forward,
    name_map={"Qwen3VL": "Qwen3OmniMoeThinker", "BaseModelOutputWithPast": "MoeModelOutputWithPast"},
    description="Positions and masks of whole sequences",
)
config.edit_method(
    "Qwen3OmniMoeVisionAttention.forward",
    edit=qwen2_vl_vision_attention_forward,
    name_map={"VisionAttention": "Qwen3OmniMoeVisionAttention"},
    description="Sequence parallel attention in the vision tower",
)
config.edit_method(
    "Qwen3OmniMoeVisionEncoder.forward",
    edit=qwen3_vl_vision_forward,
    name_map=_OF_QWEN3_VL,
    description="The vision tower on slices of the patches",
)

config.add_helper(needs_dummy_forward)
config.add_helper(leave_out_speech, name_map=_OF_QWEN2_5_OMNI)
config.add_helper(Qwen2VLVisionMetadata)
config.add_helper(Qwen3VLVisionMetadata, name_map=_OF_QWEN3_VL)
config.add_helper(Qwen2_5OmniMetadata, name_map=_OF_QWEN2_5_OMNI)
config.add_helper_after(
    "Qwen3OmniMoePreTrainedModelForConditionalGeneration", Qwen2_5OmniPositions, name_map=_OF_QWEN2_5_OMNI
)


@config.add_helper
class Qwen3OmniMoeAudioMetadata:
    """What the audio tower makes of the lengths of sounds."""

    def __init__(self, config) -> None:
        self.config = config

    def of(self, input_features: torch.Tensor, feature_lens: torch.Tensor) -> dict:
        """What the tower takes for features [mel bins, frames] of sounds of these lengths, one after another."""
        window = self.config.n_window
        padded_feature, chunk_lengths = chunk_and_pad_features(input_features, feature_lens, window)
        cu_seqlens = get_audio_cu_seqlens(chunk_lengths, feature_lens, self.config.n_window_infer, window)
        return {
            "padded_feature": padded_feature,
            "chunk_lengths": chunk_lengths,
            "valid_indices": get_valid_indices(chunk_lengths, window),
            "cu_seqlens": cu_seqlens,
            "max_seqlen": int(cu_seqlens.diff().max()),
        }


# ================================================================
# Patch: Qwen3OmniMoePreTrainedModel
# 1. no talker among the layers that stay in one piece when a model is spread or sharded
# 2. experts and routers are initialized one by one - in code that is not its own, transformers passes over modules
#    without parameters of their own, such as the block around them, and experts would be what is in memory by chance
# 3. nothing of the vocoder, which is not in this module
# ================================================================
@config.replace_class(
    "Qwen3OmniMoePreTrainedModel", description="Experts initialized one by one, no talker and no vocoder"
)
@auto_docstring
class Qwen3OmniMoePreTrainedModelWithoutSpeech(PreTrainedModel):
    config: Qwen3OmniMoeConfig
    base_model_prefix = "model"
    input_modalities = ("image", "video", "audio", "text")
    supports_gradient_checkpointing = True
    # --- Patch.1 ---
    _no_split_modules = [
        "Qwen3OmniMoeThinkerTextDecoderLayer",
        "Qwen3OmniMoeAudioEncoderLayer",
        "Qwen3OmniMoeVisionBlock",
    ]
    # --- Patch.1 ---
    _skip_keys_device_placement = ["past_key_values"]
    _supports_flash_attn = True
    _supports_sdpa = True
    _can_compile_fullgraph = False
    _supports_attention_backend = True

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        std = getattr(self.config, "initializer_range", 0.02)
        # --- Patch.2 ---
        # if isinstance(module, Qwen3OmniMoeThinkerTextSparseMoeBlock): ...
        if isinstance(module, Qwen3OmniMoeThinkerTextExperts):
            init.normal_(module.gate_up_proj, mean=0.0, std=std)
            init.normal_(module.down_proj, mean=0.0, std=std)
        elif isinstance(module, Qwen3OmniMoeThinkerTextTopKRouter):
            init.normal_(module.weight, mean=0.0, std=std)
        # --- Patch.2 ---
        # --- Patch.3 ---
        # elif isinstance(module, Qwen3OmniMoeCode2Wav): ...
        # --- Patch.3 ---
        elif isinstance(module, SinusoidsPositionEmbedding):
            position_embeddings = module.compute_default_singular_positional_embedding()
            init.copy_(module.positional_embedding, position_embeddings)


# ================================================================
# Patch: Qwen3OmniMoeAudioEncoder.dummy_forward
# 1. new - a rank without sounds takes part in what the ranks of a sharded tower exchange
# ================================================================
@config.override_method(
    "Qwen3OmniMoeAudioEncoder.dummy_forward", description="The tower on a batch without sounds", add=True
)
def qwen3_omni_moe_audio_dummy_forward(self) -> torch.Tensor:
    """A zero to which every parameter of the tower contributes, of a sound that has one feature."""
    # --- Patch.1 ---
    weight = self.conv2d1.weight
    # of fewer, a convolution gets a single column, for which torch has NaN as gradient in bfloat16 on a CPU
    frames = self.conv2d1.stride[1] * self.conv2d2.stride[1] * self.conv2d3.stride[1]
    silence, feature_lens = torch.zeros(self.num_mel_bins, frames, dtype=weight.dtype), torch.tensor([frames])
    metadata = Qwen3OmniMoeAudioMetadata(self.config).of(silence, feature_lens)
    made = {key: v.to(weight.device) if isinstance(v, torch.Tensor) else v for key, v in metadata.items()}
    output = self(silence, feature_lens=feature_lens, return_dict=True, **made)
    return output.last_hidden_state.sum() * 0.0
    # --- Patch.1 ---


config.override_method(
    "Qwen3OmniMoeVisionEncoder.dummy_forward",
    replacement=qwen3_vl_vision_dummy_forward,
    name_map=_OF_QWEN3_VL,
    description="The tower on a batch without pictures",
    add=True,
)


config.edit_method(
    "Qwen3OmniMoeThinkerModel.forward",
    edit=qwen3_omni_moe_thinker_model_forward,
    description="The towers run on every rank",
)


config.edit_method(
    "Qwen3OmniMoeThinkerForConditionalGeneration.forward",
    edit=qwen3_omni_moe_thinker_for_conditional_generation_forward,
    description="Op slots for the losses",
)


config.override_method(
    "Qwen3OmniMoeThinkerForConditionalGeneration.get_position_id_func",
    replacement=qwen2_5_omni_get_position_id_func,
    name_map=_OF_QWEN2_5_OMNI,
    description="Positions for data transforms",
    add=True,
)
config.override_method(
    "Qwen3OmniMoeThinkerForConditionalGeneration.get_metadata_collate_func",
    replacement=qwen2_5_omni_get_metadata_collate_func,
    name_map=_OF_QWEN2_5_OMNI,
    description="Metadata of pictures and sounds for collate functions",
    add=True,
)


# ================================================================
# Patch: Qwen3OmniMoeThinkerForConditionalGeneration.get_parallel_plan
# 1. new - a trainer asks the model which parameters it may split
# ================================================================
@config.override_method(
    "Qwen3OmniMoeThinkerForConditionalGeneration.get_parallel_plan",
    description="Expert parallel plan for trainers",
    add=True,
)
def qwen3_omni_moe_get_parallel_plan(self):
    # --- Patch.1 ---
    from zoo.qwen3_omni_moe.parallel_plan import get_parallel_plan

    return get_parallel_plan(type(self))
    # --- Patch.1 ---


config.allow(
    "PG301",
    "data pipelines call it, and test_zoo_multimodal",
    "Qwen3OmniMoeThinkerForConditionalGeneration.get_position_id_func",
)
# Upstream's class of this name has no forward and other parameters, so parity has nothing to compare it with.
config.allow(
    "PG301",
    "test_zoo_omni loads upstream's whole checkpoints into it and compares it with upstream's thinker",
    "Qwen3OmniMoeForConditionalGeneration",
)


config.replace_class(
    "Qwen3OmniMoeForConditionalGeneration",
    replacement=ThinkerOfQwen3OmniMoe,
    description="The thinker alone, trained as a whole",
)
