"""What is told of ranks that come to something else than one process."""

from __future__ import annotations

import math
from collections.abc import Iterator

from patchgen_core.checks.sharded.request import ShardedRequest
from patchgen_core.checks.sharded.results import Comparison
from patchgen_core.errors import Problem, list_some, quote_some
from patchgen_core.models.model_heads import Head
from patchgen_core.models.model_run import GRADIENT
from patchgen_core.models.run_comparison import ComparedRuns, Difference
from patchgen_core.project.meshes import Mesh

_NAMES_SHOWN = 3
_CLOSE = 1e-3


def explain_differences(
    head: Head, subject: ShardedRequest, compared: Comparison, layers: Comparison | None
) -> list[Problem]:
    """The problems, at the config: what ranks do not agree on, what is not repeated, and what is wrong."""
    name = f"{head.name} on {subject.mesh.name}"
    problems = [*_explain_unlike(name, compared), *_explain_unrepeated(name, compared)]
    if compared.wrong:
        problems.append(_explain_wrong(name, compared, layers))
    return [Problem(p.message, subject.declared, p.hint) for p in problems]


def _explain_unlike(name: str, compared: Comparison) -> Iterator[Problem]:
    by_ranks: dict[tuple[int, ...], list[str]] = {}
    for parameter, lacking in compared.unlike.items():
        by_ranks.setdefault(tuple(lacking), []).append(parameter)
    for ranks, parameters in by_ranks.items():
        who = f"rank {ranks[0]} has" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} have"
        others = "and other ranks have one" if len(parameters) == 1 else "and other ranks have them"
        gradients = "gradient" if len(parameters) == 1 else "gradients"
        yield Problem(f"{name}: {who} no {gradients} of {quote_some(parameters, _NAMES_SHOWN)}, {others}")


def _explain_unrepeated(name: str, compared: Comparison) -> Iterator[Problem]:
    for rank, names in compared.unrepeated.items():
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        message = f"{name}: the same batches twice give other bits on rank {rank}: {names[0]}{more}"
        yield Problem(message, hint="Look for what is kept from one run to the next, or has no fixed order.")


def _explain_wrong(name: str, compared: Comparison, layers: Comparison | None) -> Problem:
    wrong = compared.wrong
    values = [d for d in wrong if d.name.startswith(("loss of ", "logits of "))]
    gradients = [d for d in wrong if d.name.startswith(GRADIENT)]
    first = values or gradients or wrong
    place = _find_first(layers, is_backward=not values) if layers is not None else ""
    factors = list(_describe_factors(compared, [*values, *gradients] or wrong))
    message = f"{name} parts from one process: {_describe(first[0])}"
    figures = f"{len(wrong)} of {len(compared.differences)} tensors differ."
    return Problem(message, hint="\n  ".join(filter(None, [figures, *factors, place])))


def _describe(d: Difference) -> str:
    if d.shape.startswith("none "):
        return f"there is no {d.name}"
    if " instead of " in d.shape:
        return f"{d.name} has the shape {d.shape}"
    return f"{d.name}, relative error {d.relative:.1e}, allowed {d.allowed:.1e}"


def _describe_factors(compared: Comparison, differences: list[Difference]) -> Iterator[str]:
    """A line for each factor by which tensors are too large."""
    by_factor: dict[str, list[str]] = {}
    for difference in differences:
        factor = compared.factor_of(difference)
        if not factor or math.isclose(factor, 1.0, rel_tol=_CLOSE):
            continue
        named = name_factor(factor, compared.mesh)
        if named or difference.shape != "[]":  # one number is always a multiple of another
            by_factor.setdefault(f"{factor:.3g} x {named}".strip(), []).append(difference.name)
    for text, names in by_factor.items():
        yield f"{text} what one process has: {list_some(names, _NAMES_SHOWN)}."


def name_factor(factor: float, mesh: Mesh) -> str:
    """The sizes of a mesh that a factor may be, such as ``(dp_size or ep_size)``; empty for none."""
    sizes = {"dp_size": mesh.dp, "sp_size": mesh.sp, "ep_size": mesh.ep, "the number of ranks": mesh.ranks}
    sizes = {name: size for name, size in sizes.items() if size > 1}
    for form, power in (("{}", 1.0), ("1 / {}", -1.0)):
        names = [name for name, size in sizes.items() if math.isclose(factor, size**power, rel_tol=_CLOSE)]
        if names:
            return f"({form.format(' or '.join(names))})"
    return ""


def _find_first(layers: Comparison, is_backward: bool) -> str:
    """A sentence about the first module where ranks part; empty where none does."""
    for batch, runs in layers.compare_layers():
        if not is_backward and (forward := runs.find_first()) is not None:
            path, after = forward
            behind = f", right after '{after}', where both agree" if after else ""
            return f"The first output that differs is that of {_module(runs, path)}{behind}, batch '{batch}'."
        if is_backward and (path := _first_backward(runs)):
            return f"The first gradient that differs is that by the output of {_module(runs, path)}, batch '{batch}'."
    return ""


def _first_backward(runs: ComparedRuns) -> str:
    return next((d.name for d in runs.backward() if d.name and not d.is_right), "")  # "" is the loss of a rank


def _module(runs: ComparedRuns, path: str) -> str:
    kind = runs.kind(path)
    if not path:
        return f"the model itself ({kind})"
    return f"'{path}' ({kind})" if kind else f"'{path}'"
