"""Does a generated model compute what Hugging Face eager computes, forward and backward?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import ModuleType

from patchgen_core.checks.model_process.answering import (
    generated_module,
    import_module,
    model_setup,
    name_head_in_errors,
    references,
    register_kernels,
)
from patchgen_core.checks.model_process.request import ModelRequest
from patchgen_core.checks.parity.model_comparison import ModelComparison
from patchgen_core.checks.parity.request import ParityRequest
from patchgen_core.checks.parity.slot_users import find_users
from patchgen_core.checks.parity.unreached_patches import (
    find_uncalled_slots,
    find_unreached_patches,
    spans_of,
    why_nothing_shows,
)
from patchgen_core.checks.parity.unrun_lines import find_unrun_lines
from patchgen_core.checks.parity_codes import UNINITIALIZED
from patchgen_core.checks.result import NOT_KEPT, CheckResult, make_result
from patchgen_core.errors import PatchgenError
from patchgen_core.models.execution import ExecutionRecorder
from patchgen_core.models.implementations import (
    BoundSlots,
    bind_implementation,
    runs_through_slots,
    slots_in,
    why_not_here,
)
from patchgen_core.models.interpreter import device_type
from patchgen_core.models.kept_runs import KeptRuns
from patchgen_core.models.model_heads import WHOLE_FIRST, find_heads
from patchgen_core.models.model_setup import PATCHED, THROUGH_SLOTS, ModelSetup
from patchgen_core.models.references import References
from patchgen_core.ops.kernel_spec import EAGER
from patchgen_core.project.parity_settings import QUICK, THOROUGH

_BATCH = "Add one that does with the hook pytest_patchgen_toy_batches, or use another toy config."


def check_request(request: ModelRequest) -> CheckResult:
    """Make the comparison that a request asks for; in the process that runs models."""
    register_kernels(request)
    subject: ParityRequest = request.subject
    upstream = import_module(subject.upstream)
    generated = generated_module(subject)
    own = references()
    kept = own.kept = KeptRuns(request.runs, upstream) if request.runs is not None else None
    try:
        result = check_parity(generated, upstream, subject, own, model_setup(request))
    finally:
        if kept is not None:
            kept.write()
        own.kept = None
    reasons = kept.obstacles if kept is not None else ()
    notes = (f"{NOT_KEPT}what upstream's model computes: {reason}" for reason in reasons)
    return replace(result, notes=(*result.notes, *notes))


def check_parity(
    generated: ModuleType,
    upstream: ModuleType,
    request: ParityRequest,
    references: References,
    setup: ModelSetup | None = None,
) -> CheckResult:
    """Compare the heads of a generated module with upstream's, for one implementation of its slots.

    Each is built from the toy configuration with upstream's random parameters, and runs the toy batches forward and
    backward in every dtype. Other heads that hold no patched code of their own run the smallest batch and the most
    general one, in the first dtype. Where kernels are interpreted, which is slow, or eager functions run through the
    slots all but the kernels, the main head runs all batches that no other one covers in the first dtype and the
    shortest in the others, other heads that have patched code of their own run that one, and logits that an
    interpreted fused loss leaves out are compared for it. Eager functions through the slots run the shortest alone in
    other dtypes than the first. A head that differs runs no more.

    The result has a problem for every head that computes something else and for every patch that no batch reaches; a
    warning for a head that is made without the patches; in ``figures``, the errors of every head, batch and dtype.
    PatchgenError when the toy configuration, a batch or the device cannot be used.
    """
    try:
        return _check(generated, upstream, request, references, setup or ModelSetup())
    except PatchgenError as error:
        problems = [replace(problem, location=problem.location or request.declared) for problem in error.problems]
        raise PatchgenError.from_problems(problems) from error


def _check(
    generated: ModuleType, upstream: ModuleType, request: ParityRequest, references: References, setup: ModelSetup
) -> CheckResult:
    heads = sorted(find_heads(generated, upstream), key=lambda head: WHOLE_FIRST.index(head.kind))
    if not heads:
        return make_result(skipped=f"{generated.__name__} shares no model class with upstream")
    implementation = request.implementation
    if reason := why_not_here(generated, implementation, setup):
        return make_result(skipped=f"{implementation} {reason}")
    recorder = ExecutionRecorder(spans_of(request.path, request.patches))
    comparison = ModelComparison(request, recorder, references, _device(request.device), setup)
    comparison.is_kernel_alone = _is_kernel_alone(generated, request, setup)
    comparison.skipped = {head.name: reason for head in heads if (reason := request.why_left_out(head.name))}
    with bind_implementation(generated, implementation, setup) as bound:
        if bound.refusal:
            return make_result(skipped=f"{implementation} {bound.refusal}")
        if implementation not in (EAGER, PATCHED) and not bound.calls and not bound.names:
            return make_result(skipped=f"nothing in {generated.__name__} is bound to {implementation}")
        comparison.kernel_users = find_users(request, bound.calls)
        compared = [head for head in heads if head.name not in comparison.skipped]
        for head in compared:
            with name_head_in_errors(head.name):
                comparison.compare(head, is_main=head is compared[0])
    comparison.notes += [f"{name} is skipped: {reason}" for name, reason in comparison.skipped.items()]
    if not comparison.parts and not comparison.problems:
        if comparison.skipped:
            reasons = comparison.lacking or "; ".join(dict.fromkeys(comparison.skipped.values()))
            return make_result(skipped=reasons, notes=comparison.notes)
        reasons = "; ".join([*(warning.message for warning in comparison.warnings), *comparison.notes])
        raise PatchgenError(f"no toy batch runs upstream's {heads[0].name}: {reasons}", hint=_BATCH)
    if all(problem.code == UNINITIALIZED for problem in comparison.problems):  # one that stopped half-way reaches less
        _find_what_did_not_run(comparison, bound, slots_in(generated, setup.all_slot_classes))
    result = comparison.verdict()
    reason = comparison.lacking or why_nothing_shows(request, recorder.executions, bound)
    if not reason:
        return result
    # The reason stays beside the problems, for when the config allows all of them.
    return replace(result, reason=reason, status=result.status if result.errors else "skipped")


def _is_kernel_alone(generated: ModuleType, request: ParityRequest, setup: ModelSetup) -> bool:
    """Whether another implementation runs all that this one does, but for kernels, which is enough at this level."""
    if request.level == THOROUGH or THROUGH_SLOTS not in request.offered:
        return False
    return runs_through_slots(generated, request.implementation, setup)


def _find_what_did_not_run(comparison: ModelComparison, bound: BoundSlots, slots: Iterable[str]) -> None:
    """What no batch reached is an error, but for what only generation or other ranks call. Where nothing but training
    steps is run, that proves too little of the rest as well."""
    request, executions, batches = comparison.request, comparison.recorder.executions, list(comparison.batches)
    errors = comparison.warnings if request.level == QUICK else comparison.problems
    if request.implementation in (EAGER, PATCHED):  # kernels run instead of what some patches are about
        for findings, elsewhere in ((errors, False), (comparison.warnings, True)):
            findings += find_unreached_patches(
                request, executions, comparison.parts, batches, comparison.skipped, elsewhere
            )
        names = {name.partition("[")[0] for name in slots}
        for findings, only_ranks in ((errors, False), (comparison.warnings, True)):
            findings += find_unrun_lines(request, executions, batches, names, only_ranks, comparison.skipped)
    comparison.problems += find_uncalled_slots(request, bound.calls, comparison.skipped)


def _device(device: str) -> str:
    """The device to run on: interpreted kernels run on a CPU whatever the machine has."""
    here = device_type()
    if device not in ("auto", here) and device != "cpu":
        message = f"parity should run on '{device}', but torch has only '{here}' here"
        raise PatchgenError(message, hint="Run with --patchgen-device auto.")
    return here if device == "auto" else device
