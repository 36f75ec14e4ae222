"""Which plan is for a model: the project's, or the one that the model itself gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from patchgen_core.checks.result import CheckResult, make_result
from patchgen_core.errors import PatchgenError, Problem, summarize_error
from patchgen_core.models.model_setup import PlanReader
from patchgen_core.models.optional_packages import raise_if_missing
from patchgen_core.parallel_plan.plan import ParallelPlan


def make_plan(make: Callable[..., Any], cls: type) -> Any:
    """What a function makes for a model class: it may ask for the class, whose parameters may have their own names."""
    asks = any(parameter.default is parameter.empty for parameter in inspect.signature(make).parameters.values())
    return make(cls) if asks else make()


def read_plan(plan: object, readers: Sequence[PlanReader]) -> ParallelPlan:
    """A plan of this package's class, or of one that a set-up says how to read; a PatchgenError for anything else."""
    if isinstance(plan, ParallelPlan):
        return plan
    for plan_class, read in readers:
        if isinstance(plan, plan_class):
            return ParallelPlan(read(plan))
    hint = "Return patchgen_core.parallel_plan.ParallelPlan(...), or have a set-up read it (ModelSetup.add_plans)."
    raise PatchgenError(f"get_parallel_plan() returns {plan!r}, not a ParallelPlan", hint=hint)


def choose_plan(
    model: nn.Module, plan: ParallelPlan, readers: Sequence[PlanReader]
) -> tuple[ParallelPlan, CheckResult]:
    """The plan to check a model with, and what is to be said of that.

    It is the project's, which the model's own ``get_parallel_plan()`` is to return as well; or the model's own, where
    the project's is for other models, so that none of its patterns matches a parameter of this one.
    """
    name = type(model).__name__
    method = getattr(model, "get_parallel_plan", None)
    if method is None:
        return plan, make_result(notes=(f"{name} has no get_parallel_plan(): give a trainer the plan",))
    try:
        own = read_plan(method(), readers)
    except PatchgenError as error:
        problems = [replace(problem, message=f"{name}: {problem.message}") for problem in error.problems]
        return plan, make_result(problems)
    except Exception as error:
        raise_if_missing(error)
        return plan, make_result((Problem(f"{name}.get_parallel_plan() fails: {summarize_error(error)}"),))
    if own == plan:
        return plan, make_result()
    names = dict(model.named_parameters())
    if own.dimensions == plan.dimensions and not any(plan.match(names).values()):
        return own, make_result(
            notes=(f"{name} has a plan of its own: the one in parallel_plan.py is for other classes",)
        )
    message = f"{name}.get_parallel_plan() returns another plan than the project's parallel_plan.py: {own!r}"
    return plan, make_result((Problem(message, hint="Let the method return parallel_plan.get_parallel_plan()."),))


def find_whole(model: nn.Module, plan: ParallelPlan, others: Iterable[nn.Module]) -> str:
    """Of which model a plan is instead of this one: one that is a part of another, and has no plan of its own.

    Empty when some pattern matches a parameter, or the model is no part of another for which one does.
    """
    if hasattr(model, "get_parallel_plan") or any(plan.match(dict(model.named_parameters())).values()):
        return ""
    for other in others:
        path = next((path for path, part in other.named_modules() if path and type(part) is type(model)), "")
        if path and any(plan.match(dict(other.named_parameters())).values()):
            return f"the plan is for {type(other).__name__}, which has it as '{path}'"
    return ""
