"""Parallel plans that are applied to a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from patchgen_core.parallel_plan.plan import ParallelPlan
from tests.runtime.plans import Experts, plan, refusal


@pytest.fixture
def group() -> Iterator[None]:
    """A gloo group of this one process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


TOY = plan("*", gate_up_proj=Shard(0), down_proj=Shard(0))


def toy() -> nn.Module:
    return nn.ModuleDict({"experts": Experts()})


@pytest.mark.usefixtures("group")
def test_matched_parameters_become_dtensors_and_the_others_stay() -> None:
    model = toy()
    router = model.get_parameter("experts.router.weight")
    model.get_parameter("experts.gate_up_proj")._is_hf_initialized = True
    TOY.apply(model, init_device_mesh("cpu", (1,), mesh_dim_names=("ep",)))
    gate_up, down = model.get_parameter("experts.gate_up_proj"), model.get_parameter("experts.down_proj")
    assert isinstance(gate_up, nn.Parameter)
    assert isinstance(gate_up.data, DTensor)
    assert (gate_up.requires_grad, down.requires_grad) == (True, False)
    assert gate_up._is_hf_initialized
    assert model.get_parameter("experts.router.weight") is router


@pytest.mark.usefixtures("group")
def test_a_plan_lies_on_its_own_dimensions_of_the_mesh() -> None:
    model = toy()
    TOY.apply(model, init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "ep")))
    gate_up = model.get_parameter("experts.gate_up_proj")
    assert isinstance(gate_up, DTensor)
    assert gate_up.device_mesh.mesh_dim_names == ("ep",)
    assert gate_up.placements == (Shard(0),)


@pytest.mark.usefixtures("group")
def test_tied_parameters_stay_tied() -> None:
    model = nn.ModuleDict({"experts": Experts(), "a": nn.Linear(3, 4), "b": nn.Linear(3, 4)})
    model["b"].weight = model["a"].weight
    both = ParallelPlan({"ep": {**TOY.extra_parallel_plan["ep"], "b.weight": Shard(0)}})
    both.apply(model, init_device_mesh("cpu", (1,), mesh_dim_names=("ep",)))
    assert model.get_parameter("a.weight") is model.get_parameter("b.weight")
    assert isinstance(model.get_parameter("a.weight"), DTensor)


@pytest.mark.usefixtures("group")
def test_a_model_on_the_meta_device_can_be_applied_to_and_filled_later() -> None:
    with torch.device("meta"):
        model = toy()
    TOY.apply(model, init_device_mesh("cpu", (1,), mesh_dim_names=("ep",)))
    assert model.get_parameter("experts.gate_up_proj").is_meta
    model.to_empty(device="cpu")
    gate_up = model.get_parameter("experts.gate_up_proj")
    assert isinstance(gate_up, DTensor)
    assert gate_up.to_local().shape == (4, 6, 3)


@pytest.mark.usefixtures("group")
def test_gathering_gives_every_parameter_in_full() -> None:
    model = toy()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    TOY.apply(model, init_device_mesh("cpu", (1,), mesh_dim_names=("ep",)))
    gathered = TOY.gather(model)
    assert gathered.keys() == before.keys()
    for name, tensor in gathered.items():
        assert type(tensor) is torch.Tensor
        assert not tensor.requires_grad
        assert torch.equal(tensor, before[name])
    assert isinstance(model.get_parameter("experts.gate_up_proj"), DTensor)


@pytest.mark.usefixtures("group")
def test_gradients_are_distributed_as_their_parameters_are() -> None:
    model = toy()
    TOY.apply(model, init_device_mesh("cpu", (1,), mesh_dim_names=("ep",)))
    gate_up: Any = model.get_parameter("experts.gate_up_proj")
    gate_up.to_local().square().sum().backward()
    assert isinstance(gate_up.grad, DTensor)
    assert gate_up.grad.placements == (Shard(0),)


@pytest.mark.usefixtures("group")
def test_a_plan_is_applied_once() -> None:
    model, mesh = toy(), init_device_mesh("cpu", (1,), mesh_dim_names=("ep",))
    TOY.apply(model, mesh)
    assert "'experts.gate_up_proj' is a DTensor already" in refusal(TOY.apply, model, mesh)


def test_gathering_what_was_never_applied_is_refused() -> None:
    message = refusal(TOY.gather, toy())
    assert "'experts.gate_up_proj' is in the plan but is no DTensor (and 1 more)" in message


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(
    ("names", "said"),
    [(("eq",), "lacks the plan's dimension 'ep': it has 'eq'"), (None, "its dimensions have no names")],
)
def test_a_mesh_without_the_plans_dimension_is_refused(names: Any, said: str) -> None:
    assert said in refusal(TOY.apply, toy(), init_device_mesh("cpu", (1,), mesh_dim_names=names))


@pytest.mark.usefixtures("group")
def test_a_plan_that_does_not_fit_leaves_the_model_as_it_is() -> None:
    model = toy()
    before = dict(model.named_parameters())
    half = plan("*", gate_up_proj=Shard(0), up_proj=Shard(0))
    message = refusal(half.apply, model, init_device_mesh("cpu", (1,), mesh_dim_names=("ep",)))
    assert "the pattern '*.up_proj' of 'ep' matches no parameter" in message
    assert "the expert parameter 'experts.down_proj' has no placement" in message
    assert dict(model.named_parameters()) == before
