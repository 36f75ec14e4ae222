"""Does a parallel plan fit its model: on the meta device, and applied for real on gloo ranks of this machine."""

from __future__ import annotations

import contextlib
import copy
import faulthandler
import inspect
import json
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from math import prod
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from patchgen_core.checks.imports.module_text import give_text, given_texts
from patchgen_core.checks.model_process.answering import (
    check_heads,
    generated_module,
    import_models,
    import_module,
    model_heads,
    model_setup,
    one_function,
)
from patchgen_core.checks.model_process.request import BesideRequest, ModelRequest
from patchgen_core.checks.plan.model_plan import choose_plan, find_whole, read_plan, summarize_error
from patchgen_core.checks.result import CheckResult, make_result
from patchgen_core.errors import PatchgenError, Problem, quote_some
from patchgen_core.models.environment import use_loopback
from patchgen_core.models.model_setup import PlanReader
from patchgen_core.models.optional_packages import raise_if_missing
from patchgen_core.models.project_setup import run_setups
from patchgen_core.models.toy_config import make_toy_config
from patchgen_core.parallel_plan.plan import ParallelPlan
from patchgen_core.workers.generated_modules import import_generated_modules_from_text
from patchgen_core.workers.phases import phase

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

    from transformers import PreTrainedConfig, PreTrainedModel

_OUTPUT_SHOWN = 2000
_NAMES_SHOWN = 3


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
    make = one_function(module, lambda name: name == "get_parallel_plan", "get_parallel_plan()")
    readers, setups = tuple(model_setup(request).plan_readers), request.setups

    def check(cls: type[PreTrainedModel]) -> CheckResult:
        plan = _plan_for(make, cls)
        if whole := _describe_whole(cls, plan, readers, generated_module(subject)):
            return make_result(notes=(whole,))
        return check_plan(cls, plan, readers=readers, setups=setups)

    return check_heads(subject, check)


def _describe_whole(
    cls: type[PreTrainedModel], plan: object, readers: Sequence[PlanReader], module: ModuleType
) -> str:
    """Of which other head of a module a plan is, where this one is a part of it (:func:`find_whole`)."""
    others = [head for head in model_heads(module) if head is not cls]
    if hasattr(cls, "get_parallel_plan") or not others:
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


def _plan_for(make: Callable[..., Any], cls: type) -> Any:
    """What a function makes for a model class: it may ask for the class, whose parameters may have their own names."""
    asks = any(parameter.default is parameter.empty for parameter in inspect.signature(make).parameters.values())
    return make(cls) if asks else make()


def prepare_request(request: ModelRequest) -> None:
    """Start the ranks, and import what every check of a model imports."""
    prepare_ranks()
    import_models(request)


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
            return _check(_RankTask(model_class, config, read, chosen, time_limit, setups), readers, ())
        toy, short = _toy(model_class), _shortened(chosen)
        note = f"sizes {chosen} are checked as {short}, for which the toy config has experts enough"
        task = _RankTask(model_class, toy, read, short, time_limit, setups)
        return _check(task, readers, () if short == chosen else (note,))
    except PatchgenError as error:
        return make_result(error.problems)


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
        raise PatchgenError(f"{model_class.__name__} has no config_class to make a toy config of")
    return make_toy_config(model_class.config_class)


def _shortened(sizes: Mapping[str, int]) -> dict[str, int]:
    """The smallest prime factor of each size: what divides by the size divides by it."""
    return {dim: next((n for n in range(2, size) if size % n == 0), size) for dim, size in sizes.items()}


# --- the ranks, from outside -----------------------------------------------------------------------


def _apply_on_ranks(run: _RankTask) -> Iterator[Problem]:
    with tempfile.TemporaryDirectory(prefix="patchgen-plan-") as name:
        folder, context = Path(name), _context()
        ranks: list[BaseProcess] = []
        try:
            packed = pickle.dumps(run)
            with phase("starting ranks"):  # the first ones wait for torch and transformers
                for rank in range(prod(run.sizes.values())):
                    ranks.append(
                        context.Process(
                            target=_rank, args=(rank, run.setups, packed, given_texts(), folder), daemon=True
                        )
                    )
                    ranks[-1].start()
            with phase("ranks"):
                in_time = _wait(ranks, run.time_limit)
            codes = [process.exitcode for process in ranks]
        except Exception as error:
            yield Problem(f"the ranks to apply the plan on cannot be started: {summarize_error(error)}")
            return
        finally:
            _end(ranks)
        if not in_time:
            tail = "\n".join(_output(folder, rank) for rank in range(len(ranks)))
            yield Problem(f"applying the plan on {len(ranks)} ranks takes over {run.time_limit:g} s", excerpt=tail)
        else:
            yield from _outcome(folder, codes)


def _context() -> ForkServerContext | SpawnContext:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    modules = ["torch.distributed.tensor", "transformers.modeling_utils"]  # where the server does not find our own
    context.set_forkserver_preload([f"{__package__}.rank_imports", *modules])
    return context


def prepare_ranks() -> None:
    """Start the server that ranks are forked from, which then imports torch and transformers beside this process."""
    if _context().get_start_method() == "forkserver":
        from multiprocessing import forkserver

        forkserver.ensure_running()


def _wait(ranks: Sequence[BaseProcess], time_limit: float) -> bool:
    """Wait until all have ended, or one has failed. False when the time is over first."""
    end = time.monotonic() + time_limit
    while running := [process for process in ranks if process.exitcode is None]:
        if any(process.exitcode for process in ranks):
            break
        remaining = end - time.monotonic()
        if remaining <= 0 or not connection.wait([process.sentinel for process in running], remaining):
            return False
    return True


def _end(ranks: Sequence[BaseProcess]) -> None:
    for process in ranks:
        if process.pid is not None:
            process.kill()
            process.join()


def _outcome(folder: Path, codes: Sequence[int | None]) -> Iterator[Problem]:
    """What the ranks say, or how the first that failed did."""
    results = [_read(folder / f"result-{rank}") for rank in range(len(codes))]
    failed = [rank for rank, (code, result) in enumerate(zip(codes, results)) if code or (code == 0 and not result)]
    if not failed:
        messages = (message for result in results for message in json.loads(result))
        yield from dict.fromkeys(map(Problem, messages))
        return
    rank = min(failed, key=lambda rank: _when(folder / f"error-{rank}"))
    error = _read(folder / f"error-{rank}")
    how = f"fails: {error}" if error else _how(codes[rank] or 0)
    message = f"the plan cannot be applied on {len(codes)} ranks: rank {rank} {how}"
    yield Problem(message, excerpt=_output(folder, rank))


def _when(error: Path) -> int:
    """When a rank failed; first of all if it could not even say so. The others' errors are mostly its absence."""
    return error.stat().st_mtime_ns if error.exists() else 0


def _how(code: int) -> str:
    if code >= 0:
        return f"ends with exit code {code} before it is done"
    with contextlib.suppress(ValueError):
        return f"is killed by {signal.Signals(-code).name}"
    return f"is killed by signal {-code}"


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _output(folder: Path, rank: int) -> str:
    return _read(folder / f"output-{rank}")[-_OUTPUT_SHOWN:].rstrip()


# --- a rank, from inside ---------------------------------------------------------------------------


def _rank(
    rank: int, setups: tuple[str, ...], packed: bytes, texts: Sequence[tuple[str, str, str]], folder: Path
) -> None:
    """The life of a rank: leaves ``result-<rank>``, or ``error-<rank>`` and exit code 1."""
    _redirect(folder / f"output-{rank}")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    use_loopback()
    import_generated_modules_from_text()
    try:
        run_setups(setups)
        if dist.is_initialized():  # by a set-up, for the one process that runs models
            dist.destroy_process_group()
        for text in texts:
            give_text(*text)
        run: _RankTask = pickle.loads(packed)
        dist.init_process_group(
            "gloo",
            init_method=f"file://{folder / 'store'}",
            rank=rank,
            world_size=prod(run.sizes.values()),
            timeout=timedelta(seconds=run.time_limit),
        )
        mesh = init_device_mesh("cpu", tuple(run.sizes.values()), mesh_dim_names=tuple(run.sizes))
        messages = list(_differences(run, mesh))
        dist.barrier()
        dist.destroy_process_group()
    except BaseException as error:
        traceback.print_exc()
        (folder / f"error-{rank}").write_text(summarize_error(error), encoding="utf-8")
        sys.stderr.flush()
        os._exit(1)
    (folder / f"result-{rank}").write_text(json.dumps(messages), encoding="utf-8")


def _redirect(path: Path) -> None:
    stream = path.open("w", buffering=1, encoding="utf-8")
    os.dup2(stream.fileno(), 1)
    os.dup2(stream.fileno(), 2)
    sys.stdout = sys.stderr = stream
    faulthandler.enable(stream)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _differences(run: _RankTask, mesh: DeviceMesh) -> Iterator[str]:
    """What is not as the plan says, on this rank."""
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
            yield f"applying the plan leaves '{name}' whole on every rank: it is no DTensor"
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
