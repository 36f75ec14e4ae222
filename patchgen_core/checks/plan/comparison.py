"""Does a parallel plan fit its model: on the meta device, and applied for real on gloo ranks of this machine."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from patchgen_core.checks.model_process.answering import (
    check_heads,
    generated_module,
    import_module,
    model_heads,
    model_setup,
    one_function,
)
from patchgen_core.checks.model_process.request import BesideRequest, ModelRequest
from patchgen_core.checks.plan.model_plan import choose_plan, find_whole, make_plan, read_plan
from patchgen_core.checks.ranks.groups import ask_ranks, explain_failure
from patchgen_core.checks.result import CheckResult, make_result
from patchgen_core.errors import PatchgenError, Problem, quote_some, summarize_error
from patchgen_core.models.model_setup import ModelSetup, PlanReader
from patchgen_core.models.optional_packages import raise_if_missing
from patchgen_core.models.toy_config import make_toy_config
from patchgen_core.parallel_plan.plan import ParallelPlan
from patchgen_core.workers.rank_group import RanksFailed

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

_NAMES_SHOWN = 3
_METHOD = "get_parallel_plan"


@dataclass(frozen=True)
class _RankTask:
    """What every rank does: build the model of a config, apply the plan to a mesh of these sizes, compare."""

    model_class: type[PreTrainedModel]
    config: PreTrainedConfig
    plan: ParallelPlan
    sizes: Mapping[str, int]
    time_limit: float
    setups: tuple[str, ...] = ()


def check_request(request: ModelRequest) -> CheckResult:
    """Check the plan in a file beside a config; in the process that runs models."""
    subject: BesideRequest = request.subject
    module = import_module(subject.beside)
    make = one_function(module, lambda name: name == _METHOD, f"{_METHOD}()")
    readers, setups = tuple(model_setup(request).plan_readers), request.setups

    def check(cls: type[PreTrainedModel]) -> CheckResult:
        plan = make_plan(make, cls)
        if whole := _describe_whole(cls, plan, readers, generated_module(subject)):
            return make_result(notes=(whole,))
        return check_plan(cls, plan, readers=readers, setups=setups)

    return check_heads(subject, check)


def _describe_whole(
    cls: type[PreTrainedModel], plan: object, readers: Sequence[PlanReader], module: ModuleType
) -> str:
    """Of which other head of a module a plan is, where this one is a part of it (:func:`find_whole`)."""
    others = [head for head in model_heads(module) if head is not cls]
    if hasattr(cls, _METHOD) or not others:
        return ""
    try:
        return find_whole(_build_empty(cls), read_plan(plan, readers), map(_build_empty, others))
    except Exception:  # checking the plan, or that of the other head, tells why
        return ""


def _build_empty(model_class: type[PreTrainedModel], config: PreTrainedConfig | None = None) -> PreTrainedModel:
    """A model on the meta device, by default of a toy configuration."""
    build: Callable[..., PreTrainedModel] = model_class
    with torch.device("meta"):
        return build(copy.deepcopy(config) if config is not None else _toy(model_class))


def check_plan(
    model_class: type[PreTrainedModel],
    plan: object,
    config: PreTrainedConfig | None = None,
    sizes: Mapping[str, int] | None = None,
    time_limit: float = 120.0,
    readers: Sequence[PlanReader] = (),
    setups: tuple[str, ...] = (),
) -> CheckResult:
    """Check a plan against a model class: first :meth:`ParallelPlan.check` on the meta device, then for real.

    For real means: ranks of this machine's CPU each build the model with the same values and apply the plan to a mesh
    whose dimensions are as long as the smallest prime factor of the size (two ranks for one dimension of an even
    size). Every rank's shards must be the parts of the whole that the placements say, and the parameters gathered
    from all ranks must equal the whole ones bit for bit.

    A model class without ``get_parallel_plan()`` gets a note; one that returns another plan is a problem.

    Ranks are not forked from this process, whose threads may hold locks, but from a server that has imported torch
    and transformers and done nothing else. They import the module of the class by its name, and the main script anew:
    one that is no module guards what it does with ``if __name__ == "__main__"``.

    Args:
        config: the config to build it with; by default a toy config, for which the sizes are shortened as above.
        sizes: the number of ranks of each dimension of the plan; by default two for each.
        time_limit: seconds that the ranks may take.
        readers: classes of the project's own plans, and what reads them.
        setups: references of functions that set up models, which every rank calls as this process did.
    """
    try:
        read = read_plan(plan, readers)
        chosen = read.resolve_sizes(sizes)
        if config is not None:
            return _at_method(
                _check(_RankTask(model_class, config, read, chosen, time_limit, setups), readers, ()), model_class
            )
        toy, short = _toy(model_class), _shortened(chosen)
        note = f"sizes {chosen} are checked as {short}, for which the toy config has enough experts"
        task = _RankTask(model_class, toy, read, short, time_limit, setups)
        return _at_method(_check(task, readers, () if short == chosen else (note,)), model_class)
    except PatchgenError as error:
        return make_result(error.problems)


def _at_method(result: CheckResult, model_class: type[PreTrainedModel]) -> CheckResult:
    """A result whose problems are about the method that gives the model's plan, where it has one."""
    name = f"{model_class.__name__}.{_METHOD}" if hasattr(model_class, _METHOD) else model_class.__name__
    return replace(result, errors=tuple(replace(one, target=one.target or name) for one in result.errors))


def _check(run: _RankTask, readers: Sequence[PlanReader], notes: tuple[str, ...]) -> CheckResult:
    try:
        model = _build_empty(run.model_class, run.config)
    except Exception as error:
        raise_if_missing(error)
        message = f"{run.model_class.__name__} cannot be built on the meta device: {summarize_error(error)}"
        return make_result((Problem(message),), notes=notes)
    plan, own = choose_plan(model, run.plan, readers)
    run = replace(run, plan=plan)
    problems, notes = (*plan.check(model, run.sizes), *own.errors), (*notes, *own.notes)
    parameters = dict(model.named_parameters())
    figures = {"parameters": float(len(parameters))}
    if problems:
        return make_result(problems, notes=notes, figures=figures)
    short = _shortened(run.sizes)
    matched = {name for names in run.plan.match(parameters).values() for name in names}
    figures |= {"distributed": float(len(matched)), "ranks": float(prod(short.values()))}
    return make_result(tuple(_apply_on_ranks(replace(run, sizes=short))), notes=notes, figures=figures)


def _toy(model_class: type[PreTrainedModel]) -> PreTrainedConfig:
    if model_class.config_class is None:
        raise PatchgenError(f"{model_class.__name__} has no config_class to make a toy config from")
    return make_toy_config(model_class.config_class)


def _shortened(sizes: Mapping[str, int]) -> dict[str, int]:
    """The smallest prime factor of each size: what divides by the size divides by it."""
    return {dim: next((n for n in range(2, size) if size % n == 0), size) for dim, size in sizes.items()}


# --- on ranks --------------------------------------------------------------------------------------


def _apply_on_ranks(run: _RankTask) -> Iterator[Problem]:
    size = prod(run.sizes.values())
    try:
        answers = ask_ranks(f"{__name__}:{find_differences.__name__}", run, size, run.time_limit, run.setups)
    except RanksFailed as failure:
        yield explain_failure(failure, "applying the plan", "the plan cannot be applied")
    except PatchgenError as error:
        yield from error.problems
    except Exception as error:  # of pickle
        yield Problem(f"the ranks to apply the plan on cannot be started: {summarize_error(error)}")
    else:
        yield from dict.fromkeys(Problem(message) for messages in answers for message in messages)


def find_differences(run: _RankTask, _: ModelSetup) -> list[str]:
    """What is not as the plan says, on this rank."""
    return list(_differences(run, init_device_mesh("cpu", tuple(run.sizes.values()), mesh_dim_names=tuple(run.sizes))))


def _differences(run: _RankTask, mesh: DeviceMesh) -> Iterator[str]:
    model = run.model_class(copy.deepcopy(run.config))
    _fill(model)
    whole = {name: p.detach().clone() for name, p in model.named_parameters(remove_duplicate=False)}
    run.plan.apply(model, mesh)
    yield from _wrong_parts(run, mesh, model, whole)
    values = run.plan.gather(model)
    lost = [name for name in whole if name not in values or not _same(values[name], whole[name])]
    if lost:
        were = "is not what it was" if len(lost) == 1 else "are not what they were"
        yield f"gathered from all ranks, {quote_some(lost, _NAMES_SHOWN)} {were}"


def _wrong_parts(run: _RankTask, mesh: DeviceMesh, model: nn.Module, whole: Mapping[str, Tensor]) -> Iterator[str]:
    parts: dict[str, Tensor] = {}
    for dim, placements in run.plan.match(whole).items():
        for name, placement in placements.items():
            part = parts.get(name, whole[name])
            if isinstance(placement, Shard):
                part = part.chunk(run.sizes[dim], placement.dim)[mesh.get_local_rank(dim)]
            parts[name] = part
    for name, part in parts.items():
        parameter = model.get_parameter(name)
        if not isinstance(parameter, DTensor):
            yield f"applying the plan leaves '{name}' whole on every rank: it is not a DTensor"
        elif not _same(parameter.to_local(), part):
            yield f"rank {dist.get_rank()} does not hold its part of '{name}'"


def _fill(model: nn.Module) -> None:
    """Give every parameter values that are the same on every rank, whatever the model initializes and how."""
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        values = torch.randn(parameter.shape, generator=generator) * 64
        parameter.data.copy_(values)


def _same(one: Tensor, other: Tensor) -> bool:
    """Bit for bit."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))
