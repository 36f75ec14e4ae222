"""A model's parameters split over the ranks of a run: experts by its plan, all else by FSDP 2."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeVar

from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard

from patchgen_core.errors import PatchgenError, closest
from patchgen_core.parallel_plan.plan import ParallelPlan
from patchgen_core.runtime.parallel.experts import find_experts, run_experts_in_parallel
from patchgen_core.runtime.parallel.state import ParallelState, get_parallel_state
from patchgen_core.runtime.parallel.unsplit_attention import check_attention

_Model = TypeVar("_Model", bound=nn.Module)


def parallelize(
    model: _Model,
    state: ParallelState | None = None,
    plan: ParallelPlan | None = None,
    *,
    blocks: Collection[str] | None = None,
    mixed_precision: MixedPrecisionPolicy | None = None,
    reshard_after_forward: bool = True,
    splits_sequences: bool = False,
) -> _Model:
    """Split a model's parameters over all ranks, in place. Every rank calls it with the same model.

    The experts that the plan names are split over ``ep``, and tokens are sent to them and back. Every parameter,
    experts' as well, is then split by ``fully_shard`` over the ranks that have it. Gradients are the mean of what all
    ranks computed; that of an expert, which has the tokens of all ranks of ``ep``, is divided by as many. What binds
    op slots comes before, an optimizer after. On one process nothing changes.

    Args:
        state: by default :func:`get_parallel_state`'s.
        plan: where the experts go; by default what the model's ``get_parallel_plan()`` returns, if it has that.
        blocks: class names of the modules whose parameters are gathered together; by default those that the model and
            its parts name in ``_no_split_modules``.
        mixed_precision: in which dtype the model computes and gradients are reduced.
        reshard_after_forward: whether parameters are given up between forward and backward.
        splits_sequences: whether attention is known to work on slices of sequences, though its code does not show it.

    Raises:
        PatchgenError: sequences are to be split and the model's attention exchanges nothing between ranks, experts
            are to be split without a plan, the plan has a problem with this model, or ``blocks`` names no class of it.
    """
    state = state or get_parallel_state()
    if state.fsdp_mesh is None or not state.fsdp_enabled:
        return model
    if state.sp_enabled and not splits_sequences:
        check_attention(model)
    policy = mixed_precision or MixedPrecisionPolicy()
    modules = _find_blocks(model, blocks)
    if state.ep_enabled:
        _split_experts(model, state, plan or _own_plan(model), policy, reshard_after_forward)
    for block in modules:
        fully_shard(block, mesh=state.fsdp_mesh, mp_policy=policy, reshard_after_forward=reshard_after_forward)
    fully_shard(model, mesh=state.fsdp_mesh, mp_policy=policy, reshard_after_forward=reshard_after_forward)
    return model


def _split_experts(
    model: nn.Module,
    state: ParallelState,
    plan: ParallelPlan,
    policy: MixedPrecisionPolicy,
    reshard_after_forward: bool,
) -> None:
    assert state.expert_mesh is not None
    assert state.ep_group is not None
    _only_experts(plan).apply(model, state.expert_mesh)
    mesh = state.expert_mesh["ep_dp"]
    for module in find_experts(model).values():
        run_experts_in_parallel(module, state.ep_group)
        fully_shard(
            module,
            mesh=mesh,
            mp_policy=policy,
            reshard_after_forward=reshard_after_forward,
            shard_placement_fn=lambda parameter: _choose_shard(parameter, mesh.size()),
        )


def _only_experts(plan: ParallelPlan) -> ParallelPlan:
    """What a plan splits over ``ep``; what it replicates is left to FSDP."""
    patterns = plan.extra_parallel_plan.get("ep", {})
    split = {pattern: placement for pattern, placement in patterns.items() if not isinstance(placement, Replicate)}
    for pattern, placement in split.items():
        if placement != Shard(0):
            raise PatchgenError(f"the pattern '{pattern}' of 'ep' is {placement!r}: experts are split by Shard(0)")
    if not split:
        raise PatchgenError("the plan splits nothing over 'ep'", hint="Run with ep_size=1, or give another plan.")
    return ParallelPlan(extra_parallel_plan={"ep": split})


def _own_plan(model: nn.Module) -> ParallelPlan:
    method = getattr(model, "get_parallel_plan", None)
    if method is None:
        name = type(model).__name__
        message = f"ep_size is over 1, and there is no plan: {name} has no get_parallel_plan()"
        raise PatchgenError(message, hint="Pass plan=, which says which parameters count the experts.")
    plan = method()
    return plan if isinstance(plan, ParallelPlan) else ParallelPlan(plan.extra_parallel_plan)


def _find_blocks(model: nn.Module, names: Collection[str] | None) -> list[nn.Module]:
    """The modules to shard on their own, the inner ones first."""
    chosen = set(names) if names is not None else set(_no_split_modules(model))
    classes = {type(module).__name__ for module in model.modules()}
    for name in sorted(chosen - classes) if names is not None else ():
        near = closest(name, classes)
        hint = f"Did you mean '{near}'?" if near else ""
        raise PatchgenError(f"{type(model).__name__} has no module of the class '{name}'", hint=hint)
    blocks = [module for module in model.modules() if type(module).__name__ in chosen and module is not model]
    return blocks[::-1]


def _no_split_modules(model: nn.Module) -> Iterator[str]:
    for module in model.modules():
        yield from getattr(module, "_no_split_modules", None) or ()


def _choose_shard(parameter: nn.Parameter, ranks: int) -> Shard:
    """The dimension to split: experts where they divide by the ranks, else the next one."""
    experts, *rest = parameter.shape
    return Shard(1) if experts % ranks and rest and rest[0] % ranks == 0 else Shard(0)
