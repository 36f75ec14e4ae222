"""What the names in model configurations mean, and which toy sizes they get. Data only.

Each part of a model has a :class:`Palette` of sizes, so that no two dimensions of a toy model are equal by
chance, and no width is twice another: halves and doubles are what chunking, gating and rotating make.

A size in the tables is a value, or a word for one: a field of the palette; ``language width`` and ``vision
width`` for the width of the first part of that kind; ``width per head``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Palette:
    """The sizes of one part of a toy model.

    Attributes:
        width: of the residual stream; divisible by ``heads``.
        kv_heads: key and value heads, where they may be fewer.
        head_dim: of a head, where the class lets it differ from ``width / heads``.
        inner: of the feed-forward layers.
        expert_inner: of one expert.
        shared_inner: of the shared expert, or of dense layers beside sparse ones.
        vocabulary: tokens; more than there are special ones.
    """

    width: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    expert_inner: int
    shared_inner: int
    vocabulary: int


TEXT = (
    Palette(96, 6, 2, 40, 136, 56, 88, 250),
    Palette(128, 8, 2, 24, 152, 72, 116, 210),
    Palette(144, 9, 3, 20, 168, 80, 124, 190),
)
VISION = (Palette(64, 4, 2, 24, 104, 40, 84, 230), Palette(80, 4, 2, 28, 136, 48, 92, 230))
AUDIO = (Palette(72, 6, 2, 28, 120, 52, 100, 170), Palette(60, 6, 2, 16, 108, 34, 94, 170))

PALETTES: Mapping[str, tuple[Palette, ...]] = {"text": TEXT, "vision": VISION, "audio": AUDIO}
"""By the kind of a part; the first part of a kind has the first."""

KINDS = {
    "vision": ("vision", "visual", "image", "vit", "vq", "sam", "qformer", "perceiver", "resampler", "backbone"),
    "audio": ("audio", "speech", "sound", "codec", "wav", "bigvgan"),
}
"""Words in the name of a part that tell its kind; text is what is left."""

LAYER_COUNTS = (
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
    "layers",
    "num_blocks",
    "depth",
    "encoder_layers",
    "decoder_layers",
    "num_decoder_layers",
)
"""Fields that count layers; the first that a class has goes with its per-layer fields."""

INDEX_LISTS = frozenset(
    {
        "attn_layer_indices",
        "cross_attention_layers",
        "deepstack_visual_indexes",
        "full_attn_idxs",
        "fullatt_block_indexes",
        "global_attn_indexes",
        "mlp_only_layers",
        "moe_layers",
        "rope_scaling_layers",
    }
)
"""Lists of the layers that are of a kind."""

ORDERED_INDEX_LISTS = frozenset({"deepstack_visual_indexes"})
"""Those whose entries differ from each other: two are kept."""

LAYER_REFERENCES = frozenset({"kv_source_layers"})
"""For each layer the index of another."""

HEAD_COUNTS = frozenset({"first_k_dense_replace", "num_dense_layers"})
"""How many layers at the beginning are of a kind."""

TAIL_COUNTS = frozenset({"num_kv_shared_layers"})
"""How many layers at the end are of a kind."""

SOUGHT: Mapping[str, Any] = {"first_k_dense_replace": 1, "mlp_only_layers": [0], "attn_layer_indices": [1]}
"""What stands for an empty default, so that there is a layer of that kind too."""

GIVEN_IF_NONE = frozenset(
    {"head_dim", "n_routed_experts", "n_shared_experts", "num_experts_per_tok", "num_key_value_heads"}
)
"""Fields that get a toy value although their default is None; for others that means a feature is off."""

NO_TOKENS = frozenset({"speaker_id"})
"""Fields that end like the id of a special token and are none."""


def _all(value: Any, *names: str) -> dict[str, Any]:
    return dict.fromkeys(names, value)


FIRST_ORDINARY_TOKEN = 60
"""Below are the ids of all special tokens; from here to the toy vocabulary's end are those for text."""

RAISED: Mapping[str, Any] = {
    **_all(8, "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"),
    **_all(3, "num_experts_per_tok", "moe_topk", "moe_top_k", "moe_k"),
    **_all(3, "n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "n_group": 4,
    "topk_group": 2,
    **_all(12, "mamba_n_heads", "mamba_num_heads"),
    "mamba_head_dim": 16,
}
"""Numbers of things, which may be larger than the defaults."""

SIZES: Mapping[str, Any] = {
    **_all(
        "width", "hidden_size", "d_model", "n_embd", "embed_dim", "emb_dim", "embedding_dim", "input_embedding_size"
    ),
    **_all("width", "adapter_in_dim", "adapter_input_size", "patch_embed_hidden_size"),
    **_all("heads", "num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"),
    **_all("heads", "encoder_attention_heads", "decoder_attention_heads"),
    **_all("heads", "num_encoder_attention_heads", "num_decoder_attention_heads"),
    **_all("kv_heads", "num_key_value_heads", "num_kv_heads"),
    **_all("head_dim", "head_dim", "attention_head_size", "d_kv", "dim_head"),
    "d_head": "width per head",
    **_all("inner", "intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_hidden_size"),
    **_all("inner", "mlp_dim", "dff", "dim_ff", "d_ff", "d_inner", "feed_forward_size", "dense_intermediate_size"),
    **_all("expert_inner", "moe_intermediate_size", "expert_ffn_hidden_size"),
    **_all("shared_inner", "shared_expert_intermediate_size", "shared_intermediate_size", "intermediate_size_mlp"),
    **_all(
        "shared_inner", "moe_shared_expert_intermediate_size", "shared_experts_intermediate_size", "share_expert_dim"
    ),
    **_all("vocabulary", "vocab_size", "unpadded_vocab_size", "vocab_size_per_layer_input"),
    # between the parts
    **_all(
        "language width", "out_hidden_size", "output_dim", "projection_dim", "thinker_hidden_size", "text_hidden_size"
    ),
    **_all("language width", "embedding_size", "adapter_out_dim", "image_token_embed_dim"),
    **_all("vision width", "encoder_hidden_size", "vision_hidden_size"),
    **_all(108, "projector_hidden_size", "projection_hidden_dim", "alignment_intermediate_size"),
    **_all(108, "projection_intermediate_size", "pooler_output_size"),
    "image_text_hidden_size": 30,
    "num_query_tokens": 5,
    "latent_query_num": 5,
    "resampler_n_latents": 5,
    "resampler_n_heads": 4,
    "resampler_head_dim": 12,
    "resampler_depth": 2,
    # latent and indexed attention
    "q_lora_rank": 46,
    "kv_lora_rank": 26,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12,
    "v_head_dim": 18,
    "o_lora_rank": 34,
    "o_groups": 2,
    "swa_num_attention_heads": 4,
    "swa_num_key_value_heads": 2,
    "swa_head_dim": 28,
    "d_rel": 14,
    "index_head_dim": 16,
    "index_n_heads": 4,
    "index_topk": 6,
    "index_block_size": 4,
    "index_topk_blocks": 2,
    "index_kpool": 2,
    "zero_expert_num": 2,
    "moe_hidden_size": 72,
    "router_hidden_size": 38,
    # linear attention and state spaces
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 6,
    "linear_key_head_dim": 12,
    "linear_value_head_dim": 14,
    "linear_num_heads": 6,
    "linear_head_dim": 14,
    "n_groups": 3,
    **_all(10, "mamba_d_state", "ssm_state_size", "state_size"),
    **_all(7, "mamba_dt_rank", "time_step_rank"),
    **_all(8, "mamba_chunk_size", "chunk_size"),
    "mamba_d_ssm": 192,
    # what a token sees, and where it stands
    **_all(5, "sliding_window", "sliding_window_size", "attention_window_size", "local_attention_window_len"),
    "local_attention": 6,
    "attention_chunk_size": 8,
    "keep_window_size": 8,
    **_all(4, "floor_scale", "log_scaling_n_floor"),
    **_all(128, "max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "context_length"),
    **_all(128, "original_max_position_embeddings", "max_target_positions", "max_source_positions"),
    "max_2d_position_embeddings": 128,
    "rotary_dim": 8,
    "rel_extent": 20,
    "position_bias_num_buckets": 16,
    "position_bias_max_distance": 64,
    "max_window_layers": 1,
    "accept_hidden_layer": 1,
    # embeddings beside those of tokens
    "hidden_size_per_layer_input": 20,
    "laurel_rank": 10,
    "pronunciation_vocab_size": 70,
    "pronunciation_embed_dim": 22,
    "shape_vocab_size": 74,
    "shape_embed_dim": 26,
    "ngram_vocab_size_base": 300,
    "make_ngram_vocab_size_divisible_by": 2,
    "split_ngram_parts": 2,
    "ple_embed_dim": 48,
    "hc_lowrank": 14,
    "block_multiple_of": 8,
    "encoder_hash_byte_group_vocab": 100,
    # pictures
    "image_size": 36,
    "patch_size": 6,
    "window_size": 24,
    "crop_size": 36,
    "num_position_embeddings": 36,
    "position_embedding_size": 64,
    "max_num_patches": 64,
    **_all(6, "pos_emb_height", "pos_emb_width", "posemb_grid_size"),
    "mm_tokens_per_image": 9,
    "mm_embed_dim": 92,
    "mm_posemb_size": 40,
    **_all(72, "max_image_size", "max_img_size"),
    "min_image_size": 36,
    "latent_channels": 32,
    "num_res_blocks": 1,
    "output_channels": 28,
    "num_pos_feats": 14,
    "base_channels": 32,
    "num_embeddings": 30,
    "resolution": 36,
    "vision_feature_layer": [1, 0],
    "image_grid_pinpoints": [[36, 72], [72, 36], [72, 72]],
    # sounds
    "num_mel_bins": 20,
    "n_window": 4,
    "conv_chunksize": 5,
    "downsample_hidden_size": 22,
    "nemo_conv_channels": 26,
    "depthwise_separable_out_channel": "width",
    "ext_pw_out_channel": "width",
    "audio_vocab_size": 130,
    # from codes to sounds
    "decoder_dim": 48,
    "upsample_initial_channel": 96,
    "codebook_size": 32,
    "num_quantizers": 3,
    "num_codebooks": 3,
    "num_code_groups": 3,
    "mel_dim": 20,
    "num_embeds": 111,
    "enc_emb_dim": 30,
    "enc_dim": 26,
    "enc_channels": [32, 32, 32, 32, 96],
    "enc_attention_channels": 14,
    "enc_se_channels": 18,
}
"""Toy sizes, which are never larger than the defaults."""

OF_OTHER_LAYERS: Mapping[str, Any] = {
    "head_dim": 56,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "kv_lora_rank": 22,
    "qk_nope_head_dim": 8,
    "num_local_experts": 5,
}
"""Sizes in layers whose configuration differs from the others' (``per_layer_config``)."""

EPSILONS = (3e-4, 5e-4, 7e-4, 9e-4)
"""For the epsilons of a configuration, in the order of its fields: what no class has, different from each other, and
large enough for float32 to show another value in their place."""

ROPE_THETAS = (70.0, 130.0, 210.0)
"""Bases of rotary embeddings, for one kind of layers each: what no class has, and so small that the slowest
frequency turns within a toy sequence."""

NUM_LABELS = 3
"""Where transformers has 2: one more than a sign can tell."""

TELLING: Mapping[str, Any] = {
    # factors: most are 1.0, which hides that one is dropped or applied twice; others are what code may have repeated
    "attention_in_multiplier": 0.83,
    "attention_out_multiplier": 1.19,
    "attention_multiplier": 0.17,
    "attention_value_scale": 0.6,
    "attn_scale": 0.13,
    "embedding_multiplier": 1.7,
    "embedding_scale": 1.7,
    "scale_emb": 3,
    "hc_magnitude": 1.6,
    "key_multiplier": 0.77,
    "lm_head_multiplier": 1.3,
    "log_scaling_alpha": 0.13,
    "logit_scale": 0.3,
    "logits_mup_width_multiplier": 1.9,
    "logits_scaling": 1.9,
    "mlp_multipliers": [0.8, 1.3],
    "output_multiplier": 0.37,
    "qk_scale_factor": 2.3,
    "query_pre_attn_scalar": 30,
    "residual_gate_temperature": 0.45,
    "residual_multiplier": 0.61,
    **_all(0.4, "residual_weight", "conf_residual_weight"),
    "scale_depth": 1.3,
    "ssm_in_multiplier": 1.21,
    "ssm_multipliers": [0.9, 1.1, 0.8, 1.2, 0.7],
    "ssm_out_multiplier": 0.87,
    "swiglu_alpha": 1.5,
    **_all(0.9, "full_attn_alpha_factor", "linear_attn_alpha_factor", "mlp_alpha_factor"),
    **_all(1.2, "full_attn_beta_factor", "linear_attn_beta_factor", "mlp_beta_factor"),
    **_all(1.6, "routed_scaling_factor", "moe_routed_scaling_factor", "moe_router_scaling_factor"),
    **_all(1.6, "router_scaling_factor", "route_scale"),
    # parts of the loss: so small by default that rounding covers an error in them
    **_all(0.2, "router_aux_loss_coef", "aux_loss_coef", "moe_loss_weight", "density_router_loss_weight"),
    # soft caps, clamps and limits: so wide by default that nothing comes near them
    **_all(3.0, "final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap"),
    **_all(2.0, "attn_logit_softcapping", "attention_logit_cap", "conf_attention_logit_cap"),
    **_all(1.5, "gate_soft_cap", "mlp_gate_softcap", "mlp_up_softcap"),
    "swiglu_limit": 1.1,
    "altup_coef_clip": 0.5,
    "gradient_clipping": 3.0,
    "qk_l2_clip_threshold": 1.2,
    "rel_l2_clip_threshold": 1.1,
    **_all(-3.0, "kda_lower_bound", "linear_lower_bound"),
    "moe_norm_min": 0.6,
    "time_step_limit": (0.4, 1.1),
    # rotary bases outside of rope_parameters
    "rope_theta": ROPE_THETAS[0],
    "compress_rope_theta": ROPE_THETAS[1],
    # so many that one more or fewer changes nothing
    "hc_sinkhorn_iters": 3,
}
"""Numbers under which a defect shows, in place of defaults that hide it. None is any class's default. What is off by
default, that is 0 or None, stays off."""

SWITCHED_ON: Mapping[str, Any] = {
    # published checkpoints have it, defaults often not; without it the lines that normalize never run
    "norm_topk_prob": True,
    # likewise a clamp of queries, keys and values
    "clip_qkv": 1.5,
    # a part of the loss that a default of 0.0 leaves out
    "z_loss_coefficient": 0.05,
}
"""What a toy has although it is off by default, because patches often touch it and checkpoints have it.

Other structure stays as the class has it, biases (``attention_bias``, ``mlp_bias``), norms (``use_qk_norm``) and tied
embeddings among it: replacements that are made for the published checkpoints, such as Liger's MLP, may rightly lack
what these lack."""
