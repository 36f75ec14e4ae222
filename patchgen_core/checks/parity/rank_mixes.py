"""Do ranks that have other media take part in the same? Told from runs on one rank, one for each mix of media."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from patchgen_core.checks.parity.request import ParityRequest, PatchedCode
from patchgen_core.errors import Problem, list_some
from patchgen_core.models.model_run import Run

_MOST_NAMED = 4
_HINT = (
    "Ranks that share the parameters wait for each other in every tower, forward and backward: each rank must run it"
    " as often as the others do, with zeros where its batch has nothing for it."
)


def find_unlike_ranks(head: str, pairs: Mapping[str, tuple[Run, Run]], request: ParityRequest) -> Iterator[Problem]:
    """Towers that one batch runs more often than another, and parameters that get a gradient from one alone.

    The runs, patched and upstream's, are given by the name of the batch. Nothing is said of a model that runs no tower
    for text, where upstream's does not: on one rank, or at all, it is not made for ranks of unlike batches.
    """
    runs = {name: patched for name, (patched, _) in pairs.items()}
    text, upstream = next((pair for pair in pairs.values() if not pair[0].has_media), (Run(), Run()))
    if not any(count > upstream.calls.get(path, 0) for path, count in text.calls.items()):
        return
    patch = next((patch for patch in request.patches if "dummy" in patch.target.lower()), None)
    for path in text.calls:
        counts = {name: run.calls.get(path, 0) for name, run in runs.items()}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{count} on '{name}'" for name, count in counts.items())
            message = (
                f"{head}: '{path}' ({text.kinds.get(path, '')}) does not run equally often on all ranks: {listed}"
            )
            yield _problem(message, _find_caller(path, text, request) or patch, request)
    lacking = {name: run.without_gradient for name, run in runs.items()}
    always = frozenset.intersection(*lacking.values())
    for name, parameters in lacking.items():
        if own := sorted(parameters - always):
            message = (
                f"{head}: batch '{name}' gives no gradient to {list_some(own, _MOST_NAMED)}, and other batches do"
            )
            yield _problem(message, patch, request)


def _find_caller(path: str, run: Run, request: ParityRequest) -> PatchedCode | None:
    """The patch of the module that runs the one at a path, and decides how often."""
    caller = f"{run.kinds.get(path.rpartition('.')[0], '')}.forward"
    return next((patch for patch in request.patches if patch.target == caller), None)


def _problem(message: str, patch: PatchedCode | None, request: ParityRequest) -> Problem:
    if patch is None:
        return Problem(message, request.declared, _HINT)
    return Problem(f"{message}: look at the patch of '{patch.target}'", patch.declared, _HINT, target=patch.target)
