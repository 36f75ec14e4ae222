"""The check of a parallel plan: against the model's parameters, and applied on ranks of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from transformers import (
    DeepseekV3ForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    Qwen3VLMoeForConditionalGeneration,
)

from patchgen_core.parallel_plan import ParallelPlan
from patchgen_core.parity.plans import check_plan as check_plan_anyhow
from patchgen_core.parity.verdict import CheckVerdict

check_plan = partial(check_plan_anyhow, start="fork")
"""Here no thread computes while ranks are forked, even where another one waits, as under pytest-xdist."""

EXPERTS = "model.layers.*.mlp.experts"


def plan(experts: str = EXPERTS, **placements: Any) -> ParallelPlan:
    """A plan for expert parallelism; without placements the right one."""
    placements = placements or {"gate_up_proj": Shard(0), "down_proj": Shard(0)}
    return ParallelPlan({"ep": {f"{experts}.{name}": placement for name, placement in placements.items()}})


def told(verdict: CheckVerdict) -> str:
    assert verdict.problems
    return "\n".join(map(str, verdict.problems))


# --- transformers' models --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model_class", "experts"),
    [
        (Qwen3MoeForCausalLM, EXPERTS),
        (DeepseekV3ForCausalLM, EXPERTS),
        (Qwen3VLMoeForConditionalGeneration, "model.language_model.layers.*.mlp.experts"),
    ],
)
def test_the_right_plan_is_green(model_class: type[PreTrainedModel], experts: str) -> None:
    verdict = check_plan(model_class, plan(experts))
    assert verdict.problems == ()
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


def test_a_size_is_applied_with_as_many_ranks_as_its_smallest_factor() -> None:
    verdict = check_plan(Qwen3MoeForCausalLM, plan(), qwen3_moe_config(9), {"ep": 9})
    assert (verdict.problems, verdict.figures["ranks"]) == ((), 3)


def test_a_size_that_the_toy_config_is_too_small_for_is_checked_smaller_and_said() -> None:
    verdict = check_plan(Qwen3MoeForCausalLM, plan(), sizes={"ep": 64})
    assert verdict.problems == ()
    assert "sizes {'ep': 64} are checked as {'ep': 2}" in verdict.notes[0]


def test_two_dimensions_are_applied_together() -> None:
    rules = {f"{EXPERTS}.gate_up_proj": Shard(1), f"{EXPERTS}.down_proj": Shard(-1), "lm_head.weight": Replicate()}
    both = ParallelPlan({"ep": plan().extra_parallel_plan["ep"], "tp": rules})
    verdict = check_plan(Qwen3MoeForCausalLM, both, qwen3_moe_config(4))
    assert (verdict.problems, verdict.figures["ranks"]) == ((), 4)
    same = ParallelPlan({"tp": plan().extra_parallel_plan["ep"], "ep": plan().extra_parallel_plan["ep"]})
    assert check_plan(Qwen3MoeForCausalLM, same, qwen3_moe_config(4)).problems == ()


def test_sizes_that_do_not_fit_the_plan_are_red() -> None:
    assert "the dimension 'eq', which the plan lacks" in told(check_plan(Qwen3MoeForCausalLM, plan(), sizes={"eq": 2}))


# --- small models ----------------------------------------------------------------------------------


class SmallConfig(PreTrainedConfig):
    model_type = "small_moe"


class SmallExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.randn(4, 6, 3, dtype=torch.bfloat16))
        self.down_proj = nn.Parameter(torch.empty(4, 3, 5))  # initialized by nobody


class Small(PreTrainedModel):
    config_class = SmallConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.experts = SmallExperts()
        self.embed = nn.Embedding(8, 3)
        self.head = nn.Linear(3, 8)
        self.head.weight = self.embed.weight
        self.counts = nn.Parameter(torch.zeros(4, dtype=torch.int32), requires_grad=False)


SMALL = ParallelPlan({"ep": {"experts.gate_up_proj": Shard(0), "experts.down_proj": Shard(0)}})


def test_parameters_of_any_kind_survive() -> None:
    tied = ParallelPlan({"ep": {**SMALL.extra_parallel_plan["ep"], "head.weight": Shard(1), "counts": Shard(0)}})
    assert told(check_plan(Small, tied, SmallConfig())).startswith("dimension 1 of 'head.weight' has length 3")
    tied = ParallelPlan({"ep": {**SMALL.extra_parallel_plan["ep"], "head.weight": Shard(0), "counts": Shard(0)}})
    assert check_plan(Small, tied, SmallConfig()).problems == ()


@pytest.mark.parametrize("given", [None, {"ep": {"experts.*": Shard(0)}}])
def test_what_is_no_plan_is_red(given: Any) -> None:
    assert f"get_parallel_plan() returns {given!r}, no ParallelPlan" in told(check_plan(Small, given, SmallConfig()))


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


def test_a_model_that_returns_another_plan_is_red() -> None:
    other = ParallelPlan({"ep": {"experts.*": Shard(0)}})
    message = told(check_plan(WithPlan, other, SmallConfig()))
    assert "WithPlan.get_parallel_plan() returns another plan than the project's parallel_plan.py" in message


def test_a_model_whose_plan_fails_is_red() -> None:
    class Failing(Small):
        def get_parallel_plan(self) -> ParallelPlan:
            raise ImportError("No module named 'plans'")

    message = told(check_plan(Failing, SMALL, SmallConfig()))
    assert message == "Failing.get_parallel_plan() fails: ImportError: No module named 'plans'"


# --- ranks that go wrong ---------------------------------------------------------------------------


class Meddling(ParallelPlan):
    """A plan that does something to the model after it was applied."""

    def __hash__(self) -> int:
        return super().__hash__()

    def apply(self, model: nn.Module, mesh: DeviceMesh) -> None:
        super().apply(model, mesh)
        self.meddle(model, dist.get_rank())

    def meddle(self, model: nn.Module, rank: int) -> None:
        raise NotImplementedError


def meddled(meddle: Callable[[nn.Module, int], None], time_limit: float = 60.0) -> CheckVerdict:
    class Plan(Meddling):
        def meddle(self, model: nn.Module, rank: int) -> None:
            meddle(model, rank)

    verdict = check_plan(Small, Plan(SMALL.extra_parallel_plan), SmallConfig(), time_limit=time_limit)
    assert multiprocessing.active_children() == []
    return verdict


def local(model: nn.Module, name: str) -> torch.Tensor:
    parameter = model.get_parameter(name)
    assert isinstance(parameter, DTensor)
    return parameter.to_local().detach()


def test_one_wrong_value_on_one_rank_is_red() -> None:
    def meddle(model: nn.Module, rank: int) -> None:
        if rank == 1:
            local(model, "experts.gate_up_proj")[1, 2, 2] += 1

    message = told(meddled(meddle))
    assert "rank 1 does not hold its part of 'experts.gate_up_proj'" in message
    assert "gathered from all ranks, 'experts.gate_up_proj' is not what it was" in message
    assert "rank 0" not in message


def test_ranks_in_the_wrong_order_are_red() -> None:
    def meddle(model: nn.Module, rank: int) -> None:
        here = local(model, "experts.down_proj")
        parts = [torch.empty_like(here) for _ in range(2)]
        dist.all_gather(parts, here.clone())
        here.copy_(parts[1 - rank])

    message = told(meddled(meddle))
    assert "rank 0 does not hold its part of 'experts.down_proj'" in message
    assert "rank 1 does not hold its part of 'experts.down_proj'" in message


def test_a_parameter_that_stays_whole_is_red() -> None:
    def meddle(model: nn.Module, rank: int) -> None:
        experts = model.get_submodule("experts")
        experts.down_proj = nn.Parameter(torch.zeros(4, 3, 5))

    assert "'experts.down_proj'" in told(meddled(meddle))


def test_a_parameter_outside_the_plan_that_changes_is_red() -> None:
    def meddle(model: nn.Module, rank: int) -> None:
        model.get_parameter("head.bias").data.zero_()

    assert "gathered from all ranks, 'head.bias' is not what it was" in told(meddled(meddle))


def test_a_rank_that_raises_is_told_with_its_output() -> None:
    def meddle(model: nn.Module, rank: int) -> None:
        if rank == 1:
            print("about to fail")
            raise ValueError("rank one has had enough")
        dist.barrier()

    (problem,) = meddled(meddle).problems
    assert (
        problem.message == "the plan cannot be applied on 2 ranks: rank 1 fails: ValueError: rank one has had enough"
    )
    assert problem.excerpt.startswith("about to fail")
    assert "in meddle" in problem.excerpt


def test_a_rank_that_crashes_is_told() -> None:
    def meddle(model: nn.Module, rank: int) -> None:
        if rank == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        dist.barrier()

    assert "rank 1 is killed by SIGSEGV" in told(meddled(meddle))


def test_a_rank_that_leaves_is_told() -> None:
    def meddle(model: nn.Module, rank: int) -> None:
        if rank == 0:
            os._exit(3)
        dist.barrier()

    assert "rank 0 ends with exit code 3 before it is done" in told(meddled(meddle))


def test_a_rank_that_leaves_quietly_is_told() -> None:
    def meddle(model: nn.Module, rank: int) -> None:
        if rank == 0:
            os._exit(0)
        dist.barrier()

    assert "the plan cannot be applied on 2 ranks: rank 0 ends with exit code 0 before" in told(meddled(meddle))
    assert "rank 0 ends with exit code 0 before it is done" in told(meddled(lambda model, rank: os._exit(0)))


def test_ranks_that_hang_are_ended_when_their_time_is_over() -> None:
    def meddle(model: nn.Module, rank: int) -> None:
        if rank == 1:
            signal.pause()
        dist.barrier()

    assert "applying the plan on 2 ranks takes over 3 s" in told(meddled(meddle, time_limit=3))


# --- processes -------------------------------------------------------------------------------------


@pytest.fixture
def group() -> Iterator[None]:
    """A gloo group of this one process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_ranks_of_a_process_in_a_group_find_modules_on_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small_modeling.py").write_text(
        textwrap.dedent("""
        import torch
        from torch import nn
        from transformers import PreTrainedConfig, PreTrainedModel


        class SmallExperts(nn.Module):
            def __init__(self):
                super().__init__()
                self.down_proj = nn.Parameter(torch.empty(4, 3, 5))


        class Small(PreTrainedModel):
            config_class = PreTrainedConfig

            def __init__(self, config):
                super().__init__(config)
                self.experts = SmallExperts()
        """)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import small_modeling

    verdict = check_plan_anyhow(small_modeling.Small, plan("experts", down_proj=Shard(0)), PreTrainedConfig())
    assert (verdict.problems, verdict.figures["ranks"]) == ((), 2)


@pytest.mark.usefixtures("group")
def test_a_class_that_ranks_cannot_import_is_told() -> None:
    class Local(Small):
        pass

    assert "the ranks to apply the plan on cannot be started" in told(check_plan_anyhow(Local, SMALL, SmallConfig()))
    assert multiprocessing.active_children() == []


def test_ranks_are_not_forked_beside_a_thread() -> None:
    class Local(Small):
        pass

    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert "cannot be started" in told(check_plan_anyhow(Local, SMALL, SmallConfig()))
    finally:
        done.set()
        thread.join()


def test_ranks_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    code = """
    import os, signal, sys
    from tests.runtime.test_plan_check import meddled

    def meddle(model, rank):
        with open(f"{sys.argv[1]}/{rank}", "w") as file:
            file.write(str(os.getpid()))
        signal.pause()

    meddled(meddle, 300)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), str(tmp_path)])
    try:
        files = [tmp_path / str(rank) for rank in range(2)]
        assert _within(120, lambda: all(file.exists() and file.read_text() for file in files))
        pids = [int(file.read_text()) for file in files]
        assert all(_runs(pid) for pid in pids)
    finally:
        process.kill()
        process.wait()
    assert _within(30, lambda: not any(_runs(pid) for pid in pids))


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
