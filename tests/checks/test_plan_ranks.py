"""Ranks that go wrong while a plan is checked, and the processes that they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard
from transformers import PreTrainedConfig

from patchgen_core.checks.plan.comparison import check_plan
from patchgen_core.checks.result import CheckResult
from patchgen_core.parallel_plan.plan import ParallelPlan
from tests.checks.plans_to_check import SMALL, Small, SmallConfig, plan, told
from tests.workers.forking import is_running, until

pytestmark = pytest.mark.torch


class Meddling(ParallelPlan):
    """A plan that does something to the model after it was applied: what the config names."""

    def __hash__(self) -> int:
        return super().__hash__()

    def apply(self, model: nn.Module, mesh: DeviceMesh) -> None:
        super().apply(model, mesh)
        Path(model.config.folder, str(dist.get_rank())).write_text(str(os.getpid()))
        MEDDLERS[model.config.meddle](model, dist.get_rank())


Meddler = Callable[[nn.Module, int], None]
MEDDLERS: dict[str, Meddler] = {}


def meddler(function: Meddler) -> Meddler:
    """Let ranks find a function by its name."""
    MEDDLERS[function.__name__] = function
    return function


def meddled(meddle: Meddler, time_limit: float = 60.0) -> CheckResult:
    with tempfile.TemporaryDirectory() as folder:
        config = SmallConfig(meddle=meddle.__name__, folder=folder)
        verdict = check_plan(Small, Meddling(SMALL.extra_parallel_plan), config, time_limit=time_limit)
        pids = [int(Path(folder, str(rank)).read_text()) for rank in range(2)]
    assert sum(map(is_running, pids)) == (0 if is_ended(verdict) else 2)
    return verdict


def is_ended(verdict: CheckResult) -> bool:
    """Whether the ranks could not answer, which ends them all."""
    return any(" on 2 ranks" in problem.message for problem in verdict.errors)


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
@pytest.mark.slow
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
    signal.pause()


@pytest.mark.slow
def test_ranks_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    code = """
    import sys
    from tests.checks.test_plan_ranks import SMALL, Meddling, Small, SmallConfig, check_plan

    config = SmallConfig(meddle="says_who_it_is", folder=sys.argv[1])
    check_plan(Small, Meddling(SMALL.extra_parallel_plan), config, time_limit=300)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), str(tmp_path)])
    try:
        files = [tmp_path / str(rank) for rank in range(2)]
        assert until(lambda: all(file.exists() and file.read_text() for file in files), 120)
        pids = [int(file.read_text()) for file in files]
        assert all(map(is_running, pids))
    finally:
        process.kill()
        process.wait()
    assert until(lambda: not any(map(is_running, pids)))
