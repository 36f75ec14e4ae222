"""Toy configurations: what the models made of them have, and how a project gives its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import transformers
from transformers import PreTrainedConfig

from patchgen_core.models.toy_config import (
    toy_config_for,
)
from patchgen_core.models.toy_models import initial_values, initialized_otherwise, random_state
from patchgen_core.models.toy_sizes import FIRST_ORDINARY_TOKEN, ROPE_THETAS
from tests.models.families import FAMILIES, build

WIDTHS = [
    *("hidden_size", "intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size", "vocab_size"),
    *("q_lora_rank", "kv_lora_rank", "v_head_dim", "embed_dim", "d_model"),
]


def parts_of(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    yield config
    for value in vars(config).values():
        if isinstance(value, PreTrainedConfig):
            yield from parts_of(value)


@pytest.mark.parametrize("model_type", FAMILIES)
@pytest.mark.mostly_slow(6)
def test_a_toy_model_runs_forward_and_backward(model_type: str) -> None:
    config = toy_config_for(model_type)
    model = build(model_type, config)
    ids = torch.randint(FIRST_ORDINARY_TOKEN, config.get_text_config().vocab_size, (2, 19))
    model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss.backward()
    unused = [name for name, p in model.named_parameters() if p.grad is None]
    assert [name for name in unused if not any(word in name for word in ("visual", "vision", "projector"))] == []
    assert sum(p.numel() for p in model.parameters()) < 2_000_000


@pytest.mark.parametrize("model_type", FAMILIES)
def test_no_two_widths_of_a_part_are_equal_and_none_is_twice_another(model_type: str) -> None:
    for part in parts_of(toy_config_for(model_type)):
        widths = {name: getattr(part, name, None) for name in WIDTHS}
        widths = {name: size[0] if isinstance(size, list) else size for name, size in widths.items()}
        heads = getattr(part, "num_attention_heads", 0) or 0
        head_dim = vars(part).get("head_dim") or 0
        widths["q"] = heads * head_dim
        widths["kv"] = (vars(part).get("num_key_value_heads") or 0) * head_dim
        if vars(part).get("kv_lora_rank"):
            del widths["q"], widths["kv"]  # the parts of a head have sizes of their own
        sizes = [size for size in widths.values() if size]
        assert len(set(sizes)) == len(sizes), widths
        assert not {2 * size for size in sizes} & set(sizes), widths


@pytest.mark.parametrize("model_type", FAMILIES)
def test_special_tokens_differ_and_lie_below_the_ordinary_ones(model_type: str) -> None:
    config = toy_config_for(model_type)
    ids = {
        name: value
        for part in parts_of(config)
        for name, value in vars(part).items()
        if name.endswith(("_token_id", "_token_index")) and isinstance(value, int)
    }
    assert len(set(ids.values())) == len(ids)
    assert max(ids.values()) < FIRST_ORDINARY_TOKEN < config.get_text_config().vocab_size


def test_every_kind_of_layer_is_there() -> None:
    assert toy_config_for("gemma3_text").layer_types == ["sliding_attention", "full_attention"]
    assert toy_config_for("gemma3_text").sliding_window == 5
    qwen3_next = build("qwen3_next", toy_config_for("qwen3_next")).model.layers
    kinds = {(hasattr(layer, "linear_attn"), hasattr(layer.mlp, "experts")) for layer in qwen3_next}
    assert kinds == {(True, False), (True, True), (False, True)}
    llama4 = build("llama4_text", toy_config_for("llama4_text")).model.layers
    assert {layer.self_attn.use_rope for layer in llama4} == {0, 1}
    jamba = build("jamba", toy_config_for("jamba")).model.layers
    kinds = {(hasattr(layer, "mamba"), hasattr(layer.feed_forward, "experts")) for layer in jamba}
    assert kinds == {(True, True), (True, False), (False, False)}


def test_layers_that_attend_to_pictures_are_there() -> None:
    names = [type(layer).__name__ for layer in build("mllama", toy_config_for("mllama")).model.language_model.layers]
    assert names == ["MllamaSelfAttentionDecoderLayer", "MllamaCrossAttentionDecoderLayer"]


def test_a_family_says_of_another_s_class_below_it_and_overrides_win() -> None:
    config = toy_config_for("granite_speech")
    assert config.projector_config.encoder_hidden_size == config.encoder_config.hidden_dim
    own = toy_config_for("granite_speech", {"projector_config": {"encoder_hidden_size": 32}}).projector_config
    assert own.encoder_hidden_size == 32
    other = toy_config_for("granite_speech", {"projector_config": {"num_hidden_layers": 3}}).projector_config
    assert other.encoder_hidden_size == config.encoder_config.hidden_dim
    assert toy_config_for("blip-2").qformer_config.encoder_hidden_size != other.encoder_hidden_size


@pytest.mark.parametrize("model_type", ["qwen3_moe", "deepseek_v3", "glm4_moe"])
def test_a_model_with_experts_has_a_dense_layer_and_a_sparse_one(model_type: str) -> None:
    layers = build(model_type, toy_config_for(model_type)).model.layers
    assert [hasattr(layer.mlp, "experts") for layer in layers] == [False, True]


def test_there_are_more_experts_than_are_chosen_and_groups_to_choose_from() -> None:
    config = toy_config_for("deepseek_v3")
    assert 1 < config.num_experts_per_tok < config.topk_group * config.n_routed_experts // config.n_group
    assert 1 < config.topk_group < config.n_group
    config = toy_config_for("qwen3_moe")
    assert 1 < config.num_experts_per_tok < config.num_experts


@pytest.mark.parametrize("model_type", ["llama", "qwen3", "qwen3_moe", "gpt_oss"])
def test_heads_share_keys_and_values(model_type: str) -> None:
    config = toy_config_for(model_type)
    assert 1 < config.num_key_value_heads < config.num_attention_heads


def test_latent_attention_does_not_share_heads() -> None:
    config = toy_config_for("deepseek_v3")
    assert config.num_key_value_heads == config.num_attention_heads
    assert config.qk_head_dim == config.qk_nope_head_dim + config.qk_rope_head_dim


@pytest.mark.parametrize("model_type", ["qwen2_vl", "qwen3_vl", "qwen3_5"])
def test_multimodal_positions_share_out_half_of_what_is_rotated(model_type: str) -> None:
    text = toy_config_for(model_type).text_config
    head_dim = vars(text).get("head_dim") or text.hidden_size // text.num_attention_heads
    factor = text.rope_parameters.get("partial_rotary_factor", 1.0)
    assert sum(text.rope_parameters["mrope_section"]) == int(head_dim * factor) // 2


def test_nothing_is_dropped_at_random() -> None:
    config = toy_config_for("seed_oss")
    assert transformers.CONFIG_MAPPING["seed_oss"]().attention_dropout > 0
    assert config.attention_dropout == config.residual_dropout == 0


# --- a defect shows ---------------------------------------------------------------------------------


DEFECTS = [
    ("granite", "residual_multiplier", 1.0),
    ("granite", "embedding_multiplier", 1.0),
    ("granite", "scaling", 16**-0.5),
    ("granite", "config.logits_scaling", 1.0),
    ("falcon_h1", "ssm_out_multiplier", 1.0),
    ("falcon_h1", "down_multiplier", 1.0),
    ("deepseek_v3", "routed_scaling_factor", 2.5),
    ("qwen3_moe", "norm_topk_prob", False),
    ("gemma2", "config.final_logit_softcapping", None),
    ("gemma2", "attn_logit_softcapping", None),
    ("gpt_oss", "limit", 7.0),
    ("minimax", "attn_alpha_factor", 1),
    ("mamba2", "time_step_limit", (0.0, float("inf"))),
    ("qwen3", "variance_epsilon", 1e-6),
    ("gpt_neox", "eps", 1e-5),
]


@pytest.mark.parametrize(("model_type", "attribute", "wrong"), DEFECTS)
def test_what_patched_code_drops_or_repeats_as_a_number_shows(model_type: str, attribute: str, wrong: object) -> None:
    config = toy_config_for(model_type)
    model = build(model_type, config)
    random_state(model)
    ids = torch.randint(FIRST_ORDINARY_TOKEN, config.vocab_size, (2, 12))
    with torch.no_grad():
        right = model(input_ids=ids).logits
        owners = [model.config] if attribute.startswith("config.") else list(model.modules())
        name = attribute.removeprefix("config.")
        broken = [setattr(owner, name, wrong) for owner in owners if hasattr(owner, name)]
        assert broken
        difference = (model(input_ids=ids).logits - right).norm() / right.norm()
    assert difference > 1e-4


@pytest.mark.parametrize("model_type", [*FAMILIES, "vipllava", "deepseek_v4"])
def test_no_epsilon_is_the_class_s_and_those_of_a_part_differ(model_type: str) -> None:
    for part in parts_of(toy_config_for(model_type)):
        chosen = {name: value for name, value in vars(part).items() if "eps" in name.split("_")}
        defaults = vars(type(part)())
        assert all(1e-4 < value < 1e-2 and value != defaults[name] for name, value in chosen.items())
        assert len(set(chosen.values())) == len(chosen)


@pytest.mark.parametrize("model_type", FAMILIES)
def test_no_rotary_base_is_the_class_s_and_those_of_kinds_of_layers_differ(model_type: str) -> None:
    def bases(part: PreTrainedConfig) -> list[float]:
        rope = getattr(part, "rope_parameters", None) or {}
        kinds = [kind for kind in (rope, *rope.values()) if isinstance(kind, dict)]
        return [kind["rope_theta"] for kind in kinds if "rope_theta" in kind]

    for part in parts_of(toy_config_for(model_type)):
        assert len(set(bases(part))) == len(bases(part))
        assert not set(bases(part)) & set(bases(type(part)()))


def test_a_rotary_base_that_the_whole_model_says_of_a_part_is_replaced_too() -> None:
    assert transformers.GotOcr2Config().text_config.rope_parameters["rope_theta"] == 1e6
    assert toy_config_for("got_ocr2").text_config.rope_parameters["rope_theta"] == ROPE_THETAS[0]


def test_more_or_less_of_a_head_is_rotated_than_by_default() -> None:
    rope = toy_config_for("glm4").rope_parameters
    assert transformers.Glm4Config().rope_parameters["partial_rotary_factor"] == 0.5 != rope["partial_rotary_factor"]
    width = toy_config_for("glm4").head_dim * rope["partial_rotary_factor"]
    assert width == int(width)
    assert width % 2 == 0


def test_a_classifier_has_more_labels_than_a_sign_tells() -> None:
    assert toy_config_for("qwen3").num_labels == 3
    assert toy_config_for("qwen3", {"num_labels": 5}).num_labels == 5
    assert toy_config_for("qwen3", {"id2label": {0: "a", 1: "b"}}).num_labels == 2


def test_what_is_off_by_default_stays_off_and_may_be_switched_on() -> None:
    """Liger's MLP, for one, has no biases."""
    config = toy_config_for("llama")
    assert not config.mlp_bias
    assert not config.attention_bias
    assert toy_config_for("gemma3_text").final_logit_softcapping is None
    assert toy_config_for("llama", {"mlp_bias": True}).mlp_bias


def test_few_values_may_be_drawn_further_apart_than_many() -> None:
    few, many = torch.nn.Linear(2, 3, bias=False), torch.nn.Linear(60, 60, bias=False)
    for layer, expected in ((few, []), (many, ["weight"])):
        upstream = initial_values(layer)
        with torch.no_grad():
            layer.weight.mul_(2.5)
        assert initialized_otherwise(initial_values(layer), upstream) == expected
        torch.nn.init.zeros_(layer.weight)
        assert initialized_otherwise(initial_values(layer), upstream) == ["weight"]


def test_what_another_dtype_rounds_is_initialized_alike_and_another_constant_is_not() -> None:
    layer = torch.nn.Linear(6, 6)
    torch.nn.init.constant_(layer.bias, 0.7853982)
    upstream = initial_values(layer)
    assert initialized_otherwise(initial_values(layer.to(torch.bfloat16)), upstream) == []
    torch.nn.init.constant_(layer.bias, 0.75)
    assert initialized_otherwise(initial_values(layer), upstream) == ["bias"]
    torch.nn.init.constant_(layer.weight, 0.1)
    assert initialized_otherwise(initial_values(layer), upstream) == ["weight", "bias"]
