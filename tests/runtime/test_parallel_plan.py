"""Parallel plans: what a pattern matches, which mistakes are told, and what applying one does to a model."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.tensor import Partial, Replicate, Shard
from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    PreTrainedModel,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    Qwen3VLMoeConfig,
    Qwen3VLMoeForConditionalGeneration,
)

from patchgen_core.errors import Problem
from patchgen_core.parallel_plan.plan import ParallelPlan
from tests.runtime.plans import EXPERTS, Experts, plan, refusal

TEXT: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 24,
    "intermediate_size": 40,
    "moe_intermediate_size": 10,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "num_experts": 4,
    "num_experts_per_tok": 2,
}
VISION: dict[str, Any] = {
    "depth": 1,
    "hidden_size": 16,
    "intermediate_size": 20,
    "num_heads": 2,
    "patch_size": 4,
    "out_hidden_size": 24,
    "deepstack_visual_indexes": [0],
    "num_position_embeddings": 16,
}


def qwen3_moe(**named: Any) -> PreTrainedModel:
    with torch.device("meta"):
        return Qwen3MoeForCausalLM(Qwen3MoeConfig(**{**TEXT, **named}))


def deepseek_v3() -> PreTrainedModel:
    sizes = {**TEXT, "num_key_value_heads": 4, "head_dim": None}
    latent = {"q_lora_rank": 14, "kv_lora_rank": 12, "qk_rope_head_dim": 6, "qk_nope_head_dim": 8, "v_head_dim": 8}
    with torch.device("meta"):
        config = DeepseekV3Config(
            n_routed_experts=4, n_group=2, topk_group=1, first_k_dense_replace=1, **sizes, **latent
        )
        return DeepseekV3ForCausalLM(config)


def qwen3_vl_moe() -> PreTrainedModel:
    with torch.device("meta"):
        return Qwen3VLMoeForConditionalGeneration(Qwen3VLMoeConfig(text_config=TEXT, vision_config=VISION))


def gpt_oss() -> PreTrainedModel:
    sizes = {**TEXT, "num_local_experts": 4, "layer_types": ["sliding_attention", "full_attention"]}
    with torch.device("meta"):
        return GptOssForCausalLM(GptOssConfig(**{k: v for k, v in sizes.items() if k != "num_experts"}))


def told(problems: tuple[Problem, ...]) -> str:
    return "\n".join(map(str, problems))


# --- what a plan is --------------------------------------------------------------------------------


def test_plans_are_compared_hashed_pickled_and_copied_by_what_they_say() -> None:
    one = ParallelPlan(extra_parallel_plan={"ep": {"a.*": Shard(0), "b": Replicate()}})
    same = ParallelPlan({"ep": {"b": Replicate(), "a.*": Shard(0)}})
    assert one == same
    assert hash(one) == hash(same)
    assert one != ParallelPlan({"ep": {"a.*": Shard(1), "b": Replicate()}})
    assert pickle.loads(pickle.dumps(one)) == one
    assert copy.deepcopy(one) == one
    assert repr(one) == "ParallelPlan({'ep': {'a.*': Shard(dim=0), 'b': Replicate()}})"


def test_a_plan_keeps_what_it_was_made_of() -> None:
    patterns: dict[str, Any] = {"a": Shard(0)}
    made = ParallelPlan({"ep": patterns})
    patterns["b"] = Shard(1)
    assert made == ParallelPlan({"ep": {"a": Shard(0)}})
    with pytest.raises(TypeError):
        made.extra_parallel_plan["ep"]["c"] = Shard(0)


@pytest.mark.parametrize(
    "pattern", ["", "a..b", ".a", "a.", "a.**.b", "a b", "layers.[0-9].w", r"a\.b", "a?", 3, None]
)
def test_a_pattern_that_is_no_dotted_name_is_refused(pattern: Any) -> None:
    assert f"{pattern!r} is not a pattern of parameter names" in refusal(ParallelPlan, {"ep": {pattern: Shard(0)}})


@pytest.mark.parametrize("placement", [0, "Shard(0)", None, Partial(), Shard])
def test_a_placement_that_is_neither_shard_nor_replicate_is_refused(placement: Any) -> None:
    message = refusal(ParallelPlan, {"ep": {"a.b": placement}})
    assert f"the placement of 'a.b' is Shard(dim) or Replicate(), not {placement!r}" in message


@pytest.mark.parametrize(
    "given", [None, {}, [], {"ep": {}}, {"ep": None}, {"": {"a": Shard(0)}}, {3: {"a": Shard(0)}}]
)
def test_a_plan_that_says_nothing_is_refused(given: Any) -> None:
    assert "extra_parallel_plan" in refusal(ParallelPlan, given)


def test_all_that_is_wrong_with_a_plan_is_told_at_once() -> None:
    message = refusal(ParallelPlan, {"ep": {"a..b": Shard(0), "c": 1}})
    assert "'a..b'" in message
    assert "the placement of 'c'" in message


# --- what patterns match ---------------------------------------------------------------------------


def test_a_star_stands_for_characters_of_one_segment() -> None:
    made = ParallelPlan({"ep": {"layers.*.w": Shard(0), "layers.*.*_proj": Shard(1)}})
    names = [
        "layers.0.w",
        "layers.12.w",
        "layers.w",
        "layers.0.mlp.w",
        "xlayers.0.w",
        "layers.0.wx",
        "layers.1.up_proj",
    ]
    assert made.match(names) == {"ep": {"layers.0.w": Shard(0), "layers.12.w": Shard(0), "layers.1.up_proj": Shard(1)}}


def test_a_dot_of_a_pattern_is_a_dot() -> None:
    assert ParallelPlan({"ep": {"a.b": Shard(0)}}).match(["a.b", "axb"]) == {"ep": {"a.b": Shard(0)}}


def test_two_placements_for_one_name_are_refused() -> None:
    message = refusal(ParallelPlan({"ep": {"a.*": Shard(0), "*.b": Shard(1)}}).match, ["a.b"])
    assert "'ep' has two placements for 'a.b': Shard(dim=0) by the pattern 'a.*' and Shard(dim=1) by" in message


def test_two_patterns_that_agree_and_two_dimensions_are_fine() -> None:
    made = ParallelPlan({"ep": {"a.*": Shard(0), "*.b": Shard(0)}, "tp": {"a.b": Shard(1)}})
    assert made.match(["a.b"]) == {"ep": {"a.b": Shard(0)}, "tp": {"a.b": Shard(1)}}


# --- check: right ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "experts"),
    [
        (qwen3_moe, EXPERTS),
        (deepseek_v3, EXPERTS),
        (qwen3_vl_moe, "model.language_model.layers.*.mlp.experts"),
    ],
)
def test_the_right_plan_is_right(model: Callable[[], nn.Module], experts: str) -> None:
    assert plan(experts).check(model()) == ()
    assert plan(experts).check(model(), {"ep": 4}) == ()
    assert ParallelPlan({"ep": {f"{experts}.*": Shard(0)}}).check(model()) == ()


def test_biases_of_experts_belong_to_them() -> None:
    assert ParallelPlan({"ep": {f"{EXPERTS}.*": Shard(0)}}).check(gpt_oss()) == ()
    message = told(plan().check(gpt_oss()))
    assert f"the expert parameter '{EXPERTS}.gate_up_proj_bias' has no placement in 'ep': shape (4, 80)" in message
    whole = ParallelPlan({"ep": {f"{EXPERTS}.*_proj": Shard(0), f"{EXPERTS}.*_bias": Replicate()}})
    assert f"and not in '{EXPERTS}.down_proj_bias': Replicate()" in told(whole.check(gpt_oss()))


def test_a_router_beside_the_experts_weights_is_no_expert() -> None:
    model = nn.ModuleDict({"experts": nn.ModuleDict({"input": Experts(), "router": nn.Linear(3, 4, bias=False)})})
    assert plan("experts.input").check(model) == ()


def test_a_dimension_counted_from_the_end_is_the_same() -> None:
    assert plan(gate_up_proj=Shard(-3), down_proj=Shard(0)).check(qwen3_moe()) == ()


def test_experts_that_are_said_to_stay_whole_are_covered() -> None:
    whole = plan(gate_up_proj=Replicate(), down_proj=Replicate())
    assert whole.check(qwen3_moe()) == ()


# --- check: wrong ----------------------------------------------------------------------------------


def test_a_plan_of_the_split_keys_names_the_fused_one() -> None:
    stale = plan(gate_proj=Shard(0), up_proj=Shard(0), down_proj=Shard(0))
    message = told(stale.check(qwen3_moe()))
    for name in ("gate_proj", "up_proj"):
        assert f"the pattern '{EXPERTS}.{name}' of 'ep' matches no parameter" in message
    assert message.count(f"Did you mean '{EXPERTS}.gate_up_proj'?") == 2
    assert f"the expert parameter '{EXPERTS}.gate_up_proj' has no placement in 'ep': shape (4, 20, 24)" in message


def test_a_plan_with_another_prefix_names_the_right_one() -> None:
    message = told(plan().check(qwen3_vl_moe()))
    assert "Did you mean 'model.language_model.layers.*.mlp.experts.gate_up_proj'?" in message


def test_a_pattern_unlike_any_name_says_where_names_are_found() -> None:
    made = ParallelPlan({"ep": {f"{EXPERTS}.*": Shard(0), "zzz": Shard(0)}})
    assert "model.named_parameters()" in told(made.check(qwen3_moe()))


def test_experts_that_the_plan_forgets_are_named() -> None:
    message = told(plan(gate_up_proj=Shard(0)).check(qwen3_moe()))
    assert message.startswith(
        f"the expert parameter '{EXPERTS}.down_proj' has no placement in 'ep': shape (4, 24, 10)"
    )


def test_experts_that_the_plan_forgets_in_one_layer_are_named_with_it() -> None:
    made = plan("model.layers.0.mlp.experts")
    message = told(made.check(qwen3_moe(num_hidden_layers=3)))
    assert "'model.layers.1.mlp.experts.down_proj' (and 1 more)" in message
    assert "'model.layers.1.mlp.experts.gate_up_proj' (and 1 more)" in message


def test_experts_in_no_dimension_at_all_are_named() -> None:
    made = ParallelPlan({"tp": {"lm_head.weight": Replicate()}})
    assert f"the expert parameter '{EXPERTS}.down_proj' has no placement: shape" in told(made.check(qwen3_moe()))


def test_a_dimension_that_does_not_exist_is_told() -> None:
    (problem,) = plan(gate_up_proj=Shard(5), down_proj=Shard(0)).check(qwen3_moe())
    assert problem.message == (
        f"the pattern '{EXPERTS}.gate_up_proj' of 'ep' shards dimension 5 of '{EXPERTS}.gate_up_proj', "
        "which has 3 dimensions: shape (4, 20, 24)"
    )
    assert "shards dimension -4 of" in told(plan(gate_up_proj=Shard(-4), down_proj=Shard(0)).check(qwen3_moe()))


def test_experts_that_do_not_divide_are_told_once_for_all_layers() -> None:
    problems = plan().check(qwen3_moe(num_experts=5))
    assert len(problems) == 2
    assert problems[0].message == (
        f"dimension 0 of '{EXPERTS}.gate_up_proj' has length 5, which does not divide by the 2 ranks over which "
        f"the pattern '{EXPERTS}.gate_up_proj' of 'ep' shards it: shape (5, 20, 24)"
    )
    assert plan().check(qwen3_moe(num_experts=5), {"ep": 5}) == ()
    assert "the 3 ranks" in told(plan().check(qwen3_moe(), {"ep": 3}))


def test_two_dimensions_that_shard_the_same_have_to_divide_it_together() -> None:
    rules = {f"{EXPERTS}.*": Shard(0)}
    both = ParallelPlan({"ep": rules, "tp": rules})
    assert both.check(qwen3_moe()) == ()
    message = told(both.check(qwen3_moe(), {"ep": 2, "tp": 4}))
    assert "length 4, which does not divide by the 8 ranks" in message
    assert "of 'ep' and the pattern" in message


@pytest.mark.parametrize("placement", [Replicate(), Shard(1)])
def test_experts_split_in_one_weight_only_are_told(placement: Any) -> None:
    (problem,) = plan(gate_up_proj=Shard(0), down_proj=placement).check(qwen3_moe())
    assert f"'ep' splits the experts of '{EXPERTS}' in '{EXPERTS}.gate_up_proj' and not in" in problem.message
    assert f"'{EXPERTS}.down_proj': {placement!r}" in problem.message


def test_two_placements_for_one_parameter_are_told() -> None:
    made = ParallelPlan({"ep": {f"{EXPERTS}.*": Shard(0), f"{EXPERTS}.down_proj": Shard(1)}})
    assert f"'ep' has two placements for '{EXPERTS}.down_proj'" in told(made.check(qwen3_moe()))


def test_two_placements_for_tied_parameters_are_told() -> None:
    made = ParallelPlan(
        {"ep": {f"{EXPERTS}.*": Shard(0), "lm_head.weight": Shard(1), "model.embed_tokens.weight": Replicate()}}
    )
    assert made.check(qwen3_moe()) == ()
    message = told(made.check(qwen3_moe(tie_word_embeddings=True)))
    assert "which are tied: " in message
    assert "'lm_head.weight'" in message


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"eq": 2}, "a size is given for the dimension 'eq', which the plan lacks: it has 'ep'"),
        ({}, "no size is given for the plan's dimension 'ep'"),
        ({"ep": 0}, "not 0"),
        ({"ep": "2"}, "not '2'"),
        ({"ep": True}, "not True"),
    ],
)
def test_sizes_that_do_not_fit_the_plan_are_refused(sizes: Any, said: str) -> None:
    assert said in refusal(plan().check, qwen3_moe(), sizes)
