"""What to make of models of a changed configuration that cannot be compared."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from patchgen_core.checks.parity.request import ParityRequest, PatchedCode
from patchgen_core.errors import Problem
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.config_changes import Change
from patchgen_core.models.config_values import ACTIVATION_FIELDS
from patchgen_core.models.project_frames import is_of_library

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_OTHERWISE = "Give it the parameters that upstream's class has for this configuration, or make it raise an error."


def why_declined(error: BaseException) -> str:
    """What patched code says where it raises an error on purpose, as for a configuration that it is not made for;
    empty for other errors."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or is_of_library(frames[-1].filename):
        return ""
    line = linecache.getline(frames[-1].filename, frames[-1].lineno or 0).strip()
    return f"{type(error).__name__}: {' '.join(str(error).split())}" if line.startswith("raise ") else ""


def take_apart(batch: ToyBatch, reason: str) -> list[ToyBatch]:
    """A batch with fewer changes each: those that a reason names one by one beside the rest, or else two halves.

    Nothing for a batch with a single change.
    """
    changes = batch.changes
    if len(changes) < 2:
        return []
    named = [change for change in changes if change.is_named_in(reason)]
    rest = tuple(change for change in changes if change not in named)
    if named and rest:
        return [batch.with_changes(rest), *(batch.with_changes((change,)) for change in named)]
    half = len(changes) // 2
    return [batch.with_changes(changes[:half]), batch.with_changes(changes[half:])]


def set_activations_aside(batch: ToyBatch) -> list[ToyBatch]:
    """A batch without other activations, and one with them alone; nothing for one of either kind."""
    activations = tuple(change for change in batch.changes if _is_activation(change))
    rest = tuple(change for change in batch.changes if change not in activations)
    return [batch.with_changes(part) for part in (rest, activations)] if activations and rest else []


def is_activation_alone(batch: ToyBatch) -> bool:
    """Whether nothing but activations is changed: kernels are made for one, and rightly so where no checkpoint has
    another."""
    return all(map(_is_activation, batch.changes))


def _is_activation(change: Change) -> bool:
    return all(path.rpartition(".")[2] in ACTIVATION_FIELDS for path in change.values)


def explain_other_parameters(
    where: str, problem: Problem, upstream: PreTrainedModel, request: ParityRequest
) -> tuple[Problem, PatchedCode | None]:
    """What to tell of a patched model that has other parameters than upstream's for a configuration, and the patch of
    the class that they belong to."""
    patch = _find_owner(problem.message, upstream, request.patches)
    location = patch.declared if patch else request.declared
    named = f": look at the patch of '{patch.target}'" if patch else ""
    return replace(problem, message=f"{where}: {problem.message}{named}", location=location, hint=_OTHERWISE), patch


def _find_owner(text: str, upstream: PreTrainedModel, patches: Sequence[PatchedCode]) -> PatchedCode | None:
    """The patch of the innermost module that has one and that a parameter named in a text belongs to."""
    owners = {patch.target.partition(".")[0]: patch for patch in patches}
    paths = [(path, type(module).__name__) for path, module in upstream.named_modules() if path]
    inside = [(path, kind) for path, kind in paths if kind in owners and f" {path}." in text]
    return owners[max(inside, key=lambda one: len(one[0]))[1]] if inside else None
