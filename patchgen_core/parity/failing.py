"""What a comparison that fails tells: the worst tensors, where the models part, and the patches that lie there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen_core.errors import Problem
from patchgen_core.parity.comparing import (
    Difference,
    Parting,
    first_parting,
    first_parting_backward,
    layer_errors,
)
from patchgen_core.parity.reach import Reached
from patchgen_core.parity.request import ParityRequest, PatchedCode
from patchgen_core.parity.running import GRADIENT, Run
from patchgen_core.parity.tolerances import Allowed
from patchgen_core.parity.verdict import Table

TENSORS, LAYERS = "tensors", "layers"
_MOST_SUSPECTS = 4


@dataclass(frozen=True)
class Failure:
    """A batch of which a patched model computes something else.

    Attributes:
        head: name of the model's class.
        batch: name of the batch.
        dtype: what it ran in.
        allowed: what was allowed.
        differences: of all tensors.
        patched, eager, reference: the runs; the reference is None where bits were compared.
    """

    head: str
    batch: str
    dtype: str
    allowed: Allowed
    differences: Sequence[Difference]
    patched: Run
    eager: Run
    reference: Run | None

    @property
    def title(self) -> str:
        """Which comparison it is."""
        return f"{self.head}, batch '{self.batch}', {self.dtype}"

    @property
    def wrong(self) -> list[Difference]:
        """What is not right, worst first."""
        bad = [difference for difference in self.differences if not difference.is_right]
        return sorted(bad, key=lambda d: (-d.excess, -d.relative))


def explain(failure: Failure, request: ParityRequest, reached: Mapping[str, Reached]) -> tuple[Problem, list[Table]]:
    """What to tell of a failure: the problem, at the declaration of the patch to look at first, and its figures."""
    runs = (failure.patched, failure.eager, failure.reference, failure.allowed.multiple)
    forward, backward = first_parting(*runs), first_parting_backward(*runs)
    wrong = failure.wrong
    worst = wrong[0]
    parting = forward or backward
    path = parting.path if parting is not None else _owner(worst.name)
    suspects = _suspects(path, parting.after if parting is not None and not forward else "", request.patches, reached)
    message = (
        f"{failure.title}: {len(wrong)} of {len(failure.differences)} tensors differ from Hugging Face eager, "
        f"allowed {failure.allowed}; worst: {worst.name}{_said(worst)}"
    )
    where = _forward(forward) if forward is not None else _backward(backward, worst)
    named = "; ".join(f"{patch.target} ({patch.declared})" for patch in suspects)
    hint = f"{where} {f'Patches there: {named}.' if named else 'No patch runs there.'}"
    location = suspects[0].declared if suspects else request.declared
    tables = [_tensors(failure), _layers(failure)]
    return Problem(message, location, hint), tables


def _said(worst: Difference) -> str:
    if worst.shape.endswith("none") or " instead of " in worst.shape:
        return f" is {worst.shape}"
    if " instead of " in worst.dtype:
        return f" is {worst.dtype}"
    limit = f", allowed {worst.allowed:.1e}" if worst.allowed else ""
    return f", relative error {worst.relative:.1e}{limit}"


def _forward(parting: Parting) -> str:
    after = f", right after '{parting.after}', where both still agree" if parting.after else ""
    return f"The hidden states part first at {_module(parting)}{after}."


def _backward(parting: Parting | None, worst: Difference) -> str:
    if parting is None:
        return f"All hidden states and their gradients agree: look at what makes {worst.name}."
    after = f"; at '{parting.after}' both still agree" if parting.after else ""
    return (
        f"Forward agrees; going backward, the gradient that comes to the output of {_module(parting)} differs{after}."
    )


def _module(parting: Parting) -> str:
    return f"'{parting.path}' ({parting.kind})" if parting.path else f"the output of the model ({parting.kind})"


def _owner(name: str) -> str:
    """The module whose parameter a gradient is of; the model itself for other values."""
    return name.removeprefix(GRADIENT).rpartition(".")[0] if name.startswith(GRADIENT) else ""


def _suspects(
    path: str, after: str, patches: Sequence[PatchedCode], reached: Mapping[str, Reached]
) -> list[PatchedCode]:
    """The patches that ran in a module, in what is inside of it, or around it; nearest first.

    Args:
        path: where the models part.
        after: going backward, the module after it in forward, which then is looked at first.
        patches: all patches.
        reached: where they ran.
    """
    ranked = []
    for patch in patches:
        modules = reached[patch.target].modules
        ranks = [rank for module in modules for place in (path, after) if (rank := _rank(place, module)) is not None]
        if ranks:
            ranked.append((min(ranks), patch.declared.line, patch))
    return [patch for _, _, patch in sorted(ranked, key=lambda row: row[:2])][:_MOST_SUSPECTS]


def _rank(path: str, module: str) -> int | None:
    """How near the code of a module is to a place: 0 for the module itself; None where neither holds the other."""
    path = path.partition(" (")[0]
    if module == path:
        return 0
    if not path or module.startswith(f"{path}."):
        return module.count(".") - path.count(".") + (not path)
    if not module or path.startswith(f"{module}."):
        return 10 * (path.count(".") - module.count(".") + (not module))
    return None


def _tensors(failure: Failure) -> Table:
    """The tensors, what is wrong first and worst of that first."""
    right = [difference for difference in failure.differences if difference.is_right]
    rows = [_row(difference) for difference in [*failure.wrong, *right]]
    columns = ("tensor", "shape", "dtype", "absolute", "relative", "allowed", "verdict")
    return Table(f"{failure.title}: {TENSORS}", columns, tuple(rows))


def _layers(failure: Failure) -> Table:
    errors = layer_errors(failure.patched, failure.eager, failure.reference, failure.allowed.multiple)
    kinds = failure.eager.kinds
    rows = [(d.name or "(model)", kinds.get(d.name.partition(" (")[0], ""), *_row(d)[1:]) for d in errors]
    columns = ("module", "class", "shape", "dtype", "absolute", "relative", "allowed", "verdict")
    return Table(f"{failure.title}: {LAYERS}", columns, tuple(rows))


def _row(difference: Difference) -> tuple[str, ...]:
    d = difference
    return (d.name, d.shape, d.dtype, f"{d.absolute:.2e}", f"{d.relative:.2e}", f"{d.allowed:.2e}", _verdict(d))


def _verdict(difference: Difference) -> str:
    return "ok" if difference.is_right else "differs"
