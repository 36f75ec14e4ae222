"""The check of a parallel plan: against the model's parameters, and applied on ranks of this machine."""

from __future__ import annotations

from typing import Any

import pytest
from torch.distributed.tensor import Replicate, Shard
from transformers import (
    DeepseekV3ForCausalLM,
    PreTrainedModel,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    Qwen3VLMoeForConditionalGeneration,
)

from patchgen_core.checks.plan.comparison import check_plan
from patchgen_core.checks.plan.model_plan import find_whole
from patchgen_core.parallel_plan.plan import ParallelPlan
from tests.checks.plans_to_check import EXPERTS, SMALL, Small, SmallConfig, plan, told

pytestmark = pytest.mark.torch


# --- transformers' models --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model_class", "experts"),
    [
        (Qwen3MoeForCausalLM, EXPERTS),
        (DeepseekV3ForCausalLM, EXPERTS),
        (Qwen3VLMoeForConditionalGeneration, "model.language_model.layers.*.mlp.experts"),
    ],
)
@pytest.mark.mostly_slow(2)
def test_the_right_plan_is_green(model_class: type[PreTrainedModel], experts: str) -> None:
    verdict = check_plan(model_class, plan(experts))
    assert verdict.errors == ()
    assert verdict.figures["ranks"] == 2
    assert verdict.figures["distributed"] >= 2
    assert verdict.figures["parameters"] > verdict.figures["distributed"]
    (note,) = verdict.notes
    assert f"{model_class.__name__} has no get_parallel_plan()" in note


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (
            plan(gate_proj=Shard(0), up_proj=Shard(0), down_proj=Shard(0)),
            f"'{EXPERTS}.gate_proj' of 'ep' matches no parameter\n  Did you mean '{EXPERTS}.gate_up_proj'?",
        ),
        (plan(gate_up_proj=Shard(0)), f"the expert parameter '{EXPERTS}.down_proj' has no placement in 'ep'"),
        (
            plan(gate_up_proj=Shard(5), down_proj=Shard(0)),
            f"the pattern '{EXPERTS}.gate_up_proj' of 'ep' shards dimension 5 of",
        ),
    ],
)
def test_a_broken_plan_is_red(broken: ParallelPlan, said: str) -> None:
    verdict = check_plan(Qwen3MoeForCausalLM, broken)
    assert said in told(verdict)
    assert "ranks" not in verdict.figures


def qwen3_moe_config(experts: int) -> Qwen3MoeConfig:
    sizes = {"hidden_size": 24, "intermediate_size": 40, "moe_intermediate_size": 10, "vocab_size": 97}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6}
    return Qwen3MoeConfig(num_hidden_layers=1, num_experts=experts, num_experts_per_tok=2, **sizes, **heads)


def test_experts_that_do_not_divide_by_the_declared_size_are_red() -> None:
    message = told(check_plan(Qwen3MoeForCausalLM, plan(), qwen3_moe_config(5)))
    assert f"dimension 0 of '{EXPERTS}.gate_up_proj' has length 5, which does not divide by the 2 ranks" in message
    assert "the 8 ranks" in told(check_plan(Qwen3MoeForCausalLM, plan(), qwen3_moe_config(12), {"ep": 8}))


@pytest.mark.slow
def test_a_size_is_applied_with_as_many_ranks_as_its_smallest_factor() -> None:
    verdict = check_plan(Qwen3MoeForCausalLM, plan(), qwen3_moe_config(9), {"ep": 9})
    assert (verdict.errors, verdict.figures["ranks"]) == ((), 3)


def test_a_size_that_the_toy_config_is_too_small_for_is_checked_smaller_and_said() -> None:
    verdict = check_plan(Qwen3MoeForCausalLM, plan(), sizes={"ep": 64})
    assert verdict.errors == ()
    assert "sizes {'ep': 64} are checked as {'ep': 2}" in verdict.notes[0]


def test_two_dimensions_are_applied_together() -> None:
    rules = {f"{EXPERTS}.gate_up_proj": Shard(1), f"{EXPERTS}.down_proj": Shard(-1), "lm_head.weight": Replicate()}
    both = ParallelPlan({"ep": plan().extra_parallel_plan["ep"], "tp": rules})
    verdict = check_plan(Qwen3MoeForCausalLM, both, qwen3_moe_config(4))
    assert (verdict.errors, verdict.figures["ranks"]) == ((), 4)
    same = ParallelPlan({"tp": plan().extra_parallel_plan["ep"], "ep": plan().extra_parallel_plan["ep"]})
    assert check_plan(Qwen3MoeForCausalLM, same, qwen3_moe_config(4)).errors == ()


def test_sizes_that_do_not_fit_the_plan_are_red() -> None:
    assert "the dimension 'eq', which the plan lacks" in told(check_plan(Qwen3MoeForCausalLM, plan(), sizes={"eq": 2}))


# --- small models ----------------------------------------------------------------------------------


def test_parameters_of_any_kind_survive() -> None:
    tied = ParallelPlan({"ep": {**SMALL.extra_parallel_plan["ep"], "head.weight": Shard(1), "counts": Shard(0)}})
    assert told(check_plan(Small, tied, SmallConfig())).startswith("dimension 1 of 'head.weight' has length 3")
    tied = ParallelPlan({"ep": {**SMALL.extra_parallel_plan["ep"], "head.weight": Shard(0), "counts": Shard(0)}})
    assert check_plan(Small, tied, SmallConfig()).errors == ()


@pytest.mark.parametrize("given", [None, {"ep": {"experts.*": Shard(0)}}])
def test_what_is_no_plan_is_red(given: Any) -> None:
    assert f"get_parallel_plan() returns {given!r}, not a ParallelPlan" in told(
        check_plan(Small, given, SmallConfig())
    )


def test_a_model_that_cannot_be_built_is_red() -> None:
    class Broken(Small):
        def __init__(self, config: Any) -> None:
            raise RuntimeError("no such layer")

    message = told(check_plan(Broken, SMALL, SmallConfig()))
    assert message == "Broken cannot be built on the meta device: RuntimeError: no such layer"


# --- the model's own plan --------------------------------------------------------------------------


class WithPlan(Small):
    def get_parallel_plan(self) -> ParallelPlan:
        return ParallelPlan({"ep": dict(SMALL.extra_parallel_plan["ep"])})


def test_a_model_that_returns_the_same_plan_needs_no_note() -> None:
    assert check_plan(WithPlan, SMALL, SmallConfig()).notes == ()


def test_a_model_that_the_projects_plan_is_not_for_may_have_its_own() -> None:
    whole = ParallelPlan({"ep": {"language_model.experts.gate_up_proj": Shard(0)}})
    verdict = check_plan(WithPlan, whole, SmallConfig())
    assert verdict.errors == ()
    assert verdict.notes == ("WithPlan has a plan of its own: the one in parallel_plan.py is for other classes",)
    assert "matches no parameter" in told(check_plan(Small, whole, SmallConfig()))


def test_a_model_that_returns_another_plan_is_red() -> None:
    other = ParallelPlan({"ep": {"experts.*": Shard(0)}})
    verdict = check_plan(WithPlan, other, SmallConfig())
    message = told(verdict)
    assert {problem.target for problem in verdict.errors} == {"WithPlan.get_parallel_plan"}
    assert "WithPlan.get_parallel_plan() returns another plan than the project's parallel_plan.py" in message


def test_a_model_whose_plan_fails_is_red() -> None:
    class Failing(Small):
        def get_parallel_plan(self) -> ParallelPlan:
            raise ImportError("No module named 'plans'")

    message = told(check_plan(Failing, SMALL, SmallConfig()))
    assert message == "Failing.get_parallel_plan() fails: ImportError: No module named 'plans'"


class Whole(PreTrainedModel):
    config_class = SmallConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.thinker = Small(config)

    def get_parallel_plan(self) -> ParallelPlan:
        return ParallelPlan({"ep": {"thinker.experts.*": Shard(0)}})


def test_a_part_has_the_plan_of_the_model_that_it_is_a_part_of() -> None:
    small, whole = Small(SmallConfig()), Whole(SmallConfig())
    assert find_whole(small, whole.get_parallel_plan(), [whole]) == "the plan is for Whole, which has it as 'thinker'"
    assert find_whole(small, SMALL, [whole]) == ""
    assert find_whole(small, whole.get_parallel_plan(), [Small(SmallConfig())]) == ""
    assert find_whole(WithPlan(SmallConfig()), whole.get_parallel_plan(), [whole]) == ""
    assert find_whole(small, ParallelPlan({"ep": {"talker.experts.*": Shard(0)}}), [whole]) == ""
