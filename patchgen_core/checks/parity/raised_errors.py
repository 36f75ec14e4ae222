"""What a patched model that raises tells: the patch that ran, or the one that gave what no later code can take."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from patchgen_core.checks.parity.divergence import find_forward_divergence, find_suspects, find_unfinished, fresh_lines
from patchgen_core.checks.parity.failures import find_patches_of, find_slot_checks
from patchgen_core.checks.parity.request import ParityRequest, PatchedCode
from patchgen_core.errors import PatchgenError, Problem, did_you_mean, install_hint
from patchgen_core.files import read_text
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.execution import Execution, ExecutionRecorder
from patchgen_core.models.model_run import run_until_error
from patchgen_core.models.modes import Mode
from patchgen_core.models.project_frames import describe_frames, project_frames
from patchgen_core.models.references import Reference
from patchgen_core.models.run_comparison import ComparedRuns

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_QUOTED = re.compile(r"'(\w+)'")
_CALL = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+), in ', re.MULTILINE)
"""A frame of the call that anomaly detection tells of, whose backward function raises."""


@dataclass(frozen=True)
class Rerun:
    """A run of what raised, as far as it came.

    Attributes:
        runs: with upstream's run of the batch.
        executions: what ran of each patch.
        calls: the places that ran forward what raises backward, outermost first.
    """

    runs: ComparedRuns
    executions: Mapping[str, Execution]
    calls: tuple[tuple[str, int], ...] = ()


def run_again(
    reference: Reference,
    model: PreTrainedModel,
    batches: tuple[ToyBatch, ToyBatch],
    dtype: torch.dtype,
    multiple: float,
    recorder: ExecutionRecorder,
) -> Rerun | None:
    """Run a batch that makes a model raise once more, and keep what its modules give until then.

    ``batches`` are upstream's and the model's own; ``multiple`` is how many times the error of eager is allowed. None
    where upstream's run cannot be had.
    """
    batch, own = batches
    try:
        eager = reference.run(batch, dtype, layers=True)
        truth = reference.run_exactly(batch, dtype, layers=True) if multiple else None
    except PatchgenError:
        return None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        patched = run_until_error(model, own, eager, recorder)
    calls = [_CALL.findall(str(warning.message)) for warning in told]
    places = tuple((file, int(line)) for frames in calls for file, line in frames)
    return Rerun(ComparedRuns(patched, eager, truth, multiple), recorder.executions, places)


def explain_exception(
    where: str,
    error: Exception,
    request: ParityRequest,
    mode: Mode,
    executions: Mapping[str, Execution],
    rerun: Callable[[], Rerun | None],
) -> Problem:
    """The problem of a patched model that raises in a mode, at the patch that parted from upstream before, or else at
    the one that lacks a parameter that the error names, or whose code was running, forward or on the way back."""
    text = " ".join(str(error).split())
    frames = project_frames(error)
    places = [(frame.filename, frame.lineno or 0) for frame in frames]
    patch, role = next(iter(find_patches_of(mode, request)), None), "makes inputs only for the models here"
    if patch is None:
        patch, role = _find_origin(rerun(), request, executions, places), "differs from Hugging Face eager before"
    if patch is None:
        patch, role = find_lacking(text, request, where.partition(",")[0]), "takes one parameter less than upstream's"
    if patch is None:
        patch, role = _innermost(places, request, executions), "was running"
    location = patch.declared if patch is not None else request.declared
    patch_hint = f"The patch of '{patch.target}' {role}. " if patch is not None else ""
    hint = f"{patch_hint}{_describe_remedy(error, text, mode)}".strip()
    message = f"{where}: the patched model raises {type(error).__name__}: {text}"
    target = patch.target if patch is not None else ""
    return Problem(message, location, hint, describe_frames(frames), target=target)


def _find_origin(
    rerun: Rerun | None,
    request: ParityRequest,
    executions: Mapping[str, Execution],
    places: Sequence[tuple[str, int]],
) -> PatchedCode | None:
    """The patch that parted from upstream before the error, or that made what raises on the way back.

    Of several in one class it is the one that was running, by the ``places`` where the error passed.
    """
    if rerun is None:
        return None
    divergence = find_forward_divergence(rerun.runs) or find_unfinished(rerun.runs)
    suspects: list[PatchedCode] = []
    for ran in (rerun.executions, executions) if divergence is not None else ():
        assert divergence is not None
        suspects = suspects or find_suspects(divergence, request.patches, ran)
    if not suspects:
        return _innermost(rerun.calls, request, executions)
    owner = suspects[0].target.partition(".")[0]
    of_class = (patch for patch in suspects if patch.target.partition(".")[0] == owner)
    return next((patch for patch in of_class if _is_at(patch, places, request)), suspects[0])


def find_lacking(text: str, request: ParityRequest, head: str) -> PatchedCode | None:
    """The patch of a function that does not take a parameter of upstream's whose name an error quotes; of several one
    of the head, which ``generate()`` asks."""
    quoted = set(_QUOTED.findall(text))
    modules = [sys.modules.get(name) for name in (request.module, request.upstream)]
    for patch in sorted(request.patches, key=lambda patch: not patch.target.startswith(f"{head}.")):
        own, upstream = (_parameters_of(module, patch.target) for module in modules)
        if own and quoted & (upstream - own):
            return patch
    return None


def _parameters_of(module: object, target: str) -> set[str]:
    for name in target.split("."):
        module = getattr(module, name, None)
    return set(inspect.signature(module).parameters) if inspect.isroutine(module) else set()


def _is_at(patch: PatchedCode, places: Sequence[tuple[str, int]], request: ParityRequest) -> bool:
    """Whether one of some places is in the lines of a patch in the generated module."""
    return any(file == request.path and patch.holds(line) for file, line in places)


def _innermost(
    places: Sequence[tuple[str, int]], request: ParityRequest, executions: Mapping[str, Execution]
) -> PatchedCode | None:
    """The patch in whose lines of the generated module the last of some frames is that is in a patch; one that ran as
    upstream's, for its slot has no kernel, only where there is no other."""
    patches: list[PatchedCode] = []
    for file, line in reversed(places):
        at_line = [patch for patch in request.patches if _is_at(patch, [(file, line)], request)]
        patches += sorted(at_line, key=lambda patch: patch.distance_to(line))
    text = (request.text if request.text is not None else read_text(Path(request.path))) or ""
    slot_checks = find_slot_checks(text)
    own = (patch for patch in patches if fresh_lines(patch, executions[patch.target], slot_checks))
    return next(own, patches[0] if patches else None)


def _describe_remedy(error: Exception, text: str, mode: Mode) -> str:
    """The nearest name to one that is not there, or what may be missing that a trainer has and a test has not; empty
    where nothing tells."""
    if isinstance(error, AttributeError) and error.name and error.obj is not None:
        return did_you_mean(error.name, dir(error.obj))
    if isinstance(error, ModuleNotFoundError) and error.name:
        return install_hint(error.name)
    if "process group" in text:
        return "A set-up can start a group of one process ([tool.patchgen] setup)."
    if isinstance(error, AssertionError) or "NoneType" in text:
        if not mode.is_collated:
            return "generate() gets what a processor makes of a prompt, and nothing that a collator adds."
        return "If the project's collator adds what is missing, let a set-up add it (ModelSetup.add_inputs)."
    return ""
