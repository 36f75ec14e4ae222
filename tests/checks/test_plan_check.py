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

from patchgen_core.checks.plan.comparison import check_plan
from patchgen_core.checks.plan.model_plan import find_whole
from patchgen_core.checks.result import CheckResult
from patchgen_core.parallel_plan.plan import ParallelPlan

pytestmark = pytest.mark.torch

EXPERTS = "model.layers.*.mlp.experts"


def plan(experts: str = EXPERTS, **placements: Any) -> ParallelPlan:
    """A plan for expert parallelism; without placements the right one."""
    placements = placements or {"gate_up_proj": Shard(0), "down_proj": Shard(0)}
    return ParallelPlan({"ep": {f"{experts}.{name}": placement for name, placement in placements.items()}})


def told(verdict: CheckResult) -> str:
    assert verdict.errors
    return "\n".join(map(str, verdict.errors))


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
    assert check_plan(Small, tied, SmallConfig()).errors == ()


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


def test_a_model_that_the_projects_plan_is_not_for_may_have_its_own() -> None:
    whole = ParallelPlan({"ep": {"language_model.experts.gate_up_proj": Shard(0)}})
    verdict = check_plan(WithPlan, whole, SmallConfig())
    assert verdict.errors == ()
    assert verdict.notes == ("WithPlan has a plan of its own: that of parallel_plan.py is for others",)
    assert "matches no parameter" in told(check_plan(Small, whole, SmallConfig()))


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


class Whole(PreTrainedModel):
    config_class = SmallConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.thinker = Small(config)

    def get_parallel_plan(self) -> ParallelPlan:
        return ParallelPlan({"ep": {"thinker.experts.*": Shard(0)}})


def test_a_part_has_the_plan_of_the_model_that_it_is_a_part_of() -> None:
    small, whole = Small(SmallConfig()), Whole(SmallConfig())
    assert find_whole(small, whole.get_parallel_plan(), [whole]) == "the plan is for Whole, of which it is 'thinker'"
    assert find_whole(small, SMALL, [whole]) == ""
    assert find_whole(small, whole.get_parallel_plan(), [Small(SmallConfig())]) == ""
    assert find_whole(WithPlan(SmallConfig()), whole.get_parallel_plan(), [whole]) == ""
    assert find_whole(small, ParallelPlan({"ep": {"talker.experts.*": Shard(0)}}), [whole]) == ""


# --- ranks that go wrong ---------------------------------------------------------------------------


class Meddling(ParallelPlan):
    """A plan that does something to the model after it was applied: what the config names."""

    def __hash__(self) -> int:
        return super().__hash__()

    def apply(self, model: nn.Module, mesh: DeviceMesh) -> None:
        super().apply(model, mesh)
        MEDDLERS[model.config.meddle](model, dist.get_rank())


Meddler = Callable[[nn.Module, int], None]
MEDDLERS: dict[str, Meddler] = {}


def meddler(function: Meddler) -> Meddler:
    """Let ranks find a function by its name."""
    MEDDLERS[function.__name__] = function
    return function


def meddled(meddle: Meddler, time_limit: float = 60.0) -> CheckResult:
    config = SmallConfig(meddle=meddle.__name__)
    verdict = check_plan(Small, Meddling(SMALL.extra_parallel_plan), config, time_limit=time_limit)
    assert multiprocessing.active_children() == []
    return verdict


def local(model: nn.Module, name: str) -> torch.Tensor:
    parameter = model.get_parameter(name)
    assert isinstance(parameter, DTensor)
    return parameter.to_local().detach()


@meddler
def one_wrong_value_on_one_rank(model: nn.Module, rank: int) -> None:
    if rank == 1:
        local(model, "experts.gate_up_proj")[1, 2, 2] += 1


def test_one_wrong_value_on_one_rank_is_red() -> None:
    message = told(meddled(one_wrong_value_on_one_rank))
    assert "rank 1 does not hold its part of 'experts.gate_up_proj'" in message
    assert "gathered from all ranks, 'experts.gate_up_proj' is not what it was" in message
    assert "rank 0" not in message


@meddler
def ranks_in_the_wrong_order(model: nn.Module, rank: int) -> None:
    here = local(model, "experts.down_proj")
    parts = [torch.empty_like(here) for _ in range(2)]
    dist.all_gather(parts, here.clone())
    here.copy_(parts[1 - rank])


def test_ranks_in_the_wrong_order_are_red() -> None:
    message = told(meddled(ranks_in_the_wrong_order))
    assert "rank 0 does not hold its part of 'experts.down_proj'" in message
    assert "rank 1 does not hold its part of 'experts.down_proj'" in message


@meddler
def a_parameter_that_stays_whole(model: nn.Module, rank: int) -> None:
    experts = model.get_submodule("experts")
    experts.down_proj = nn.Parameter(torch.zeros(4, 3, 5))


def test_a_parameter_that_stays_whole_is_red() -> None:
    assert "'experts.down_proj'" in told(meddled(a_parameter_that_stays_whole))


@meddler
def another_parameter(model: nn.Module, rank: int) -> None:
    model.get_parameter("head.bias").data.zero_()


def test_a_parameter_outside_the_plan_that_changes_is_red() -> None:
    assert "gathered from all ranks, 'head.bias' is not what it was" in told(meddled(another_parameter))


@meddler
def a_rank_that_raises_with_its_output(model: nn.Module, rank: int) -> None:
    if rank == 1:
        print("about to fail")
        raise ValueError("rank one has had enough")
    dist.barrier()


def test_a_rank_that_raises_is_told_with_its_output() -> None:
    (problem,) = meddled(a_rank_that_raises_with_its_output).errors
    assert (
        problem.message == "the plan cannot be applied on 2 ranks: rank 1 fails: ValueError: rank one has had enough"
    )
    assert problem.excerpt.startswith("about to fail")
    assert "in a_rank_that_raises_with_its_output" in problem.excerpt


@meddler
def a_rank_that_crashes(model: nn.Module, rank: int) -> None:
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    dist.barrier()


def test_a_rank_that_crashes_is_told() -> None:
    assert "rank 1 is killed by SIGSEGV" in told(meddled(a_rank_that_crashes))


@meddler
def a_rank_that_leaves(model: nn.Module, rank: int) -> None:
    if rank == 0:
        os._exit(3)
    dist.barrier()


def test_a_rank_that_leaves_is_told() -> None:
    assert "rank 0 ends with exit code 3 before it is done" in told(meddled(a_rank_that_leaves))


@meddler
def leaves_quietly(model: nn.Module, rank: int) -> None:
    if rank == 0:
        os._exit(0)
    dist.barrier()


@meddler
def all_leave_quietly(model: nn.Module, rank: int) -> None:
    os._exit(0)


def test_a_rank_that_leaves_quietly_is_told() -> None:
    assert "the plan cannot be applied on 2 ranks: rank 0 ends with exit code 0 before" in told(
        meddled(leaves_quietly)
    )
    assert "rank 0 ends with exit code 0 before it is done" in told(meddled(all_leave_quietly))


@meddler
def ranks_that_hang(model: nn.Module, rank: int) -> None:
    if rank == 1:
        signal.pause()
    dist.barrier()


def test_ranks_that_hang_are_ended_when_their_time_is_over() -> None:
    assert "applying the plan on 2 ranks takes over 3 s" in told(meddled(ranks_that_hang, time_limit=3))


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

    verdict = check_plan(small_modeling.Small, plan("experts", down_proj=Shard(0)), PreTrainedConfig())
    assert (verdict.errors, verdict.figures["ranks"]) == ((), 2)


@pytest.mark.usefixtures("group")
def test_a_class_that_ranks_cannot_import_is_told() -> None:
    class Local(Small):
        pass

    assert "the ranks to apply the plan on cannot be started" in told(check_plan(Local, SMALL, SmallConfig()))
    assert multiprocessing.active_children() == []


def test_ranks_start_beside_threads_that_compute() -> None:
    """Forked from this process they would find locks that nobody lets go of."""
    done = threading.Event()

    def compute() -> None:
        x = torch.randn(64, 64)
        while not done.is_set():
            x = torch.tanh(x @ x)

    threads = [threading.Thread(target=compute) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert check_plan(Small, SMALL, SmallConfig()).errors == ()
    finally:
        done.set()
        for thread in threads:
            thread.join()


@meddler
def says_who_it_is(model: nn.Module, rank: int) -> None:
    Path(model.config.folder, str(rank)).write_text(str(os.getpid()))
    signal.pause()


def test_ranks_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    code = """
    import sys
    from tests.checks.test_plan_check import SMALL, Meddling, Small, SmallConfig, check_plan

    config = SmallConfig(meddle="says_who_it_is", folder=sys.argv[1])
    check_plan(Small, Meddling(SMALL.extra_parallel_plan), config, time_limit=300)
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
    """Whether a process is there and no zombie; it may end between two looks at it."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not Path("/proc/self").exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
