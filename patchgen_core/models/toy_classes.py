"""Where one configuration class means something of its own. Data only; each entry says why it is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchgen_core.models.toy_sizes import AUDIO, TEXT, VISION, Palette


def letters(number: int) -> str:
    """A number in the digits ``A`` to ``J``."""
    return "".join("ABCDEFGHIJ"[int(digit)] for digit in str(number))


UNDECLARED: Mapping[str, Mapping[str, Any]] = {
    "Qwen2_5OmniThinkerConfig": {"vision_start_token_id": 0, "vision_end_token_id": 0},
    "Qwen3OmniMoeThinkerConfig": {"vision_start_token_id": 0, "vision_end_token_id": 0},
    "Qwen3OmniMoeTalkerConfig": {"spatial_merge_size": 2},
    "Qwen3OmniMoeTalkerTextConfig": {"shared_expert_intermediate_size": 1408},
    "DbrxAttentionConfig": {"rope_theta": 10000.0},
    "VisionEncoderDecoderConfig": {"pad_token_id": 0, "decoder_start_token_id": 0},
    "UdopConfig": {"decoder_start_token_id": 0},
}
"""Fields that the model reads and its published checkpoints give, but the class does not declare: their defaults."""

_SPEECH = {"hidden_dim": AUDIO[0].width, "input_dim": 20, "context_size": 8, "max_pos_emb": 16}

OF_CLASS: Mapping[str, Mapping[str, Any]] = {
    # embed_dim is the width of its layers
    "Qwen2VLVisionConfig": {"hidden_size": "language width", "mlp_ratio": 3},
    # the output projection takes the width, not all heads
    "HeliumConfig": {"head_dim": "width per head"},
    # splits its heads over four devices
    "CodeGenConfig": {"n_head": 4},
    # attention + dense, mamba + sparse, mamba + dense
    "JambaConfig": {
        "num_hidden_layers": 3,
        "attn_layer_period": 3,
        "attn_layer_offset": 2,
        "expert_layer_period": 3,
    },
    # routes to one expert only
    "ZayaConfig": {"num_experts_per_tok": 1},
    # not a picture's window
    "GPTNeoConfig": {"window_size": 5, "attention_types": [[["global", "local"], 1]]},
    "Mamba2Config": {"num_heads": 12, "head_dim": 16},
    # its block types repeat over the layers
    "RecurrentGemmaConfig": {"num_hidden_layers": 3},
    # default layer types are missing or have no convolution
    "Lfm2MoeConfig": {"layer_types": ["conv", "conv", "full_attention"]},
    "Lfm2Config": {"full_attn_idxs": [1], "layer_types": ["conv", "full_attention"]},
    "GraniteMoeHybridConfig": {"layer_types": ["linear_attention", "full_attention"]},
    "DeepseekOcr2TextConfig": {"mlp_layer_types": ["dense", "sparse"]},
    # sliding layers have twice as many key and value heads
    "MiMoV2FlashConfig": {"num_attention_heads": 8},
    # heads of sliding layers are rotated and unrotated parts together
    "Dots3NoteTextConfig": {"head_dim": 16},
    "ZambaConfig": {"layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"]},
    # rounds the width of queries and keys up to 64
    "xLSTMConfig": {"hidden_size": 128, "embedding_dim": 128, "num_heads": 4, "mode": "train", "chunk_size": 1},
    "Pix2StructTextConfig": {"d_kv": "width per head"},
    "XmodConfig": {"default_language": "en_XX"},
    # its positions want sequences of one length, its chunks multiples of theirs
    "ReformerConfig": {"is_decoder": True, "axial_pos_embds": False, "attn_layers": ["local", "lsh"], "hash_seed": 0},
    # expects experts, whose number it does not know
    "DiffusionGemmaTextConfig": {"num_experts": 8, "top_k_experts": 3, "moe_intermediate_size": "expert_inner"},
    # patches of a picture to queries
    "AriaConfig": {"projector_patch_to_query_dict": {36: 5}},
    # the pixel shuffle takes four patches together
    "Llama4VisionConfig": {
        "intermediate_size": 256,
        "vision_output_dim": 108,
        "projector_input_dim": 108,
        "projector_output_dim": 108,
    },
    # their last one is the width of the encoder after it
    "DeepseekOcr2SamVisionConfig": {"downsample_channels": [26, VISION[1].width]},
    "UnlimitedOcrSamVisionConfig": {"downsample_channels": [26, VISION[1].width]},
    # the projector takes four patches together
    "MuseGlimmerConfig": {"out_hidden_size": 4 * VISION[0].width},
    "MuseSparkConfig": {"out_hidden_size": 4 * VISION[0].width},
    # its eager attention does not repeat keys and values
    "UnlimitedOcrTextConfig": {"num_key_value_heads": "heads"},
    # makes the mask of sliding layers even if there are none
    "Step3p7TextConfig": {"sliding_window": 5},
    # one width for each level, of which there are as many as layers
    "MuseSparkAudioConfig": {"hidden_sizes": (12, 20, 28, 36), "depths": (1, 1, 1, 1)},
    "ChameleonVQVAEConfig": {"channel_multiplier": (1, 1, 1, 1, 1)},
    "JanusVQVAEConfig": {"channel_multiplier": (1, 1, 1, 1, 1)},
    "Emu3VQVAEConfig": {
        "channel_multiplier": (1, 1, 1, 1),
        "hidden_size": 32,
        "embed_dim": 4,
        "num_attention_heads": 2,
    },
    "PPFormulaNetVisionConfig": {
        "post_conv_in_channels": 28,
        "post_conv_mid_channels": 34,
        "post_conv_out_channels": 46,
        "decoder_hidden_size": "language width",
    },
    # the text attends to what two layers see and to what they make of it
    "MllamaVisionConfig": {
        "num_global_layers": 1,
        "intermediate_layers_indices": [0, 1],
        "vision_output_dim": 3 * VISION[0].width,
    },
    # the projector is as wide as the part that sees
    "Kimi_K25Config": {"projection_hidden_size": VISION[0].width},
    # the part that sees is no more than an embedding
    "Gemma4UnifiedVisionConfig": {"output_proj_dims": 92},
    # upstream counts on 13 tokens for each chunk, which are those of a window of 50
    "Qwen3OmniMoeAudioEncoderConfig": {"n_window": 50, "n_window_infer": 800},
    "Qwen3ASREncoderConfig": {"n_window": 50, "n_window_infer": 800},
    # the projector takes four tokens together, as many as the feed-forward layers are wide
    "VoxtralEncoderConfig": {"intermediate_size": 4 * AUDIO[0].width, "max_source_positions": 32},
    "GlmAsrEncoderConfig": {"intermediate_size": 4 * AUDIO[0].width},
    # the adapter takes what the part that sees gives
    "Molmo2AdapterConfig": {"hidden_size": VISION[0].width},
    # of its six by six patches, as many in each direction become one
    "GraniteDoclingVisionConfig": {"scale_factor": 2},
    # the projector attends to the encoder
    "GraniteSpeechEncoderConfig": _SPEECH,
    "GraniteSpeechPlusEncoderConfig": _SPEECH,
    "GraniteSpeechConfig": {"projector_config": {"encoder_hidden_size": _SPEECH["hidden_dim"]}},
    "GraniteSpeechPlusConfig": {"projector_config": {"encoder_hidden_size": _SPEECH["hidden_dim"]}},
    # do without a placeholder by default
    "Blip2Config": {"image_token_index": 59},
    "InstructBlipConfig": {"image_token_index": 59},
    "InstructBlipVideoConfig": {"video_token_index": 59},
    "MiniCPMV4_6Config": {"image_token_id": 59, "video_token_id": 58, "insert_layer_id": 0},
    "MiniCPMV4_7Config": {"image_token_id": 59, "video_token_id": 58, "insert_layer_id": 0},
    "MiniCPMOcrConfig": {"image_token_id": 59, "video_token_id": 58, "insert_layer_id": 0},
    "NemotronH_Omni_Reasoning_V3_Config": {"image_token_id": 59, "video_token_id": 58},
    "VoxtralConfig": {"audio_token_id": 59},
    "BltLocalEncoderConfig": {"hidden_size_global": TEXT[1].width},
    "BltLocalDecoderConfig": {"hidden_size_global": TEXT[1].width},
    "ChameleonConfig": {"vocabulary_map": {"<image>": 59, **{f"IMGIMG{letters(n)}Z": 26 + n for n in range(30)}}},
    "Emu3Config": {
        "vocabulary_map": {
            "<image>": 59,
            "<|extra_200|>": 58,
            **{f"<|visual token {n:06d}|>": 26 + n for n in range(32)},
        }
    },
    "Granite4VisionConfig": {
        # each layer of text takes one thing only
        "deepstack_layer_map": [[-2, 0]],
        "spatial_target_layers": [1, 2, 3, 4],
        "text_config": {"num_hidden_layers": 5},
        "downsample_rate": "1/2",
    },
    "Florence2VisionConfig": {
        "depths": (1, 1, 1, 1),
        "embed_dim": (16, 24, 32, 40),
        "num_heads": (2, 2, 4, 4),
        "num_groups": (2, 2, 4, 4),
        "patch_size": (7, 3, 3, 3),
        "window_size": 2,
    },
    # the defaults give no rotary parameters
    "CohereCompassTextConfig": {
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 70.0},
            "full_attention": {"rope_type": "default", "rope_theta": 130.0},
        },
    },
    "Qwen4ExpTextConfig": {
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 44,
        "indexer_budget": 8,
        "indexer_compress_ratio": 2,
    },
    "DbrxAttentionConfig": {"kv_n_heads": 2},
    # this one is the order of a norm, of which 1 is the sum of the weights
    "DbrxFFNConfig": {"moe_normalize_expert_weights": 2.0},
    # so that a toy sequence has more than one block
    "MiniMaxConfig": {"block_size": 8},
}
"""Sizes, in the words of :mod:`patchgen_core.models.toy_sizes`, for fields of one class; for a configuration below it,
which is of another family's class, a mapping of values."""

MULTIMODAL_ROPE = frozenset(
    {
        "PaddleOCRTextConfig",
        "Qwen2VLTextConfig",
        "Qwen2_5_VLTextConfig",
        "Qwen2_5OmniTextConfig",
        "Qwen2_5OmniTalkerConfig",
    }
)
"""Classes with ``mrope_section`` in their rotary parameters that do not tell so, in some release."""

PALETTES: Mapping[str, Palette] = {
    # of the same width as their encoders
    "T5Gemma2DecoderConfig": TEXT[0],
    "Pix2StructVisionConfig": TEXT[0],
    "BltLocalEncoderConfig": TEXT[0],
    "BltLocalDecoderConfig": TEXT[0],
    "BltGlobalTransformerConfig": TEXT[1],
}
"""Parts that cannot have sizes of their own."""
