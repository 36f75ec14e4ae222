"""Which batches parity runs a config's models on, what each passes, and why it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from patchgen_core.checks.model_process.answering import (
    generated_module,
    import_module,
    model_setup,
    name_head_in_errors,
    references,
    register_kernels,
)
from patchgen_core.checks.model_process.request import ModelRequest
from patchgen_core.checks.parity.batch_lines import BatchLine
from patchgen_core.checks.parity.head_plans import HeadPlans
from patchgen_core.checks.parity.request import ParityRequest
from patchgen_core.checks.parity.unreached_patches import spans_of
from patchgen_core.errors import PatchgenError
from patchgen_core.models.batches import describe_inputs
from patchgen_core.models.execution import ExecutionRecorder
from patchgen_core.models.model_heads import WHOLE_FIRST, Head, find_heads
from patchgen_core.models.toy_batches import load_builder

_TRAINING = "a training step"


def list_batches(request: ModelRequest) -> tuple[BatchLine, ...]:
    """The batches of a config with upstream's lines; in the process that runs models. No patched model is run."""
    register_kernels(request)
    model_setup(request)
    subject: ParityRequest = request.subject
    generated, upstream = generated_module(subject), import_module(subject.upstream)
    heads = sorted(find_heads(generated, upstream), key=lambda head: WHOLE_FIRST.index(head.kind))
    plans = HeadPlans(subject, ExecutionRecorder(spans_of(subject.path, subject.patches)))
    wanted = [head for head in heads if not subject.why_left_out(head.name)]
    lines: list[BatchLine] = []
    for head in wanted:
        with name_head_in_errors(head.name):
            lines += _list_batches_of(plans, head, is_main=head is wanted[0])
    return tuple(lines)


def _list_batches_of(plans: HeadPlans, head: Head, is_main: bool) -> Iterator[BatchLine]:
    request = plans.request
    try:
        builders = tuple(map(load_builder, request.batches))
        reference = references().get(head, plans.config(head, is_main), builders, "cpu")
    except PatchgenError as error:  # upstream's class lacks a package, or does not take the configuration
        yield BatchLine(head.name, "", "", "", "", (), error.problems[0].message)
        return
    by_name: dict[str, BatchLine] = {}
    for dtype, batch in plans.plan(head, reference, is_main):
        reasons = [sentence for sentence, heads in plans.varied.items() if head.name in heads]
        line = BatchLine(head.name, batch.name, batch.about, describe_inputs(batch.inputs), "", ())
        line = by_name.setdefault(batch.name, replace(line, reason=reasons[-1] if reasons else _TRAINING))
        by_name[batch.name] = replace(line, dtypes=tuple(dict.fromkeys((*line.dtypes, dtype))))
    plans.parts[head.name] = {path: type(part).__name__ for path, part in reference.toy.model.named_modules()}
    yield from by_name.values()
    for refused in reference.batches.refused:
        name, _, reason = refused.partition(": ")
        yield BatchLine(head.name, name, "", "", "", (), reason)
