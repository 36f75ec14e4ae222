"""Compares a training that ranks share with that of one process, in the process that runs models."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from patchgen_core.checks.model_process.answering import (
    generated_module,
    import_module,
    model_setup,
    name_head_in_errors,
    one_function,
    references,
)
from patchgen_core.checks.model_process.request import ModelRequest
from patchgen_core.checks.parity.unreached_patches import spans_of
from patchgen_core.checks.plan.model_plan import make_plan, read_plan
from patchgen_core.checks.ranks.groups import ask_ranks, end_ranks
from patchgen_core.checks.result import CheckResult, make_result
from patchgen_core.checks.sharded.explaining import explain_differences, explain_rank_failure
from patchgen_core.checks.sharded.rank_errors import Origin, find_origin
from patchgen_core.checks.sharded.request import ShardedRequest
from patchgen_core.checks.sharded.results import Comparison, compare_trained
from patchgen_core.checks.sharded.task import RankTask, Trained, Training
from patchgen_core.checks.sharded.training import count_items, takes_items, train_on_rank, train_whole
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.model_heads import Head, find_heads
from patchgen_core.models.references import Reference
from patchgen_core.models.toy_batches import load_builder
from patchgen_core.models.toy_config import load_toy_config
from patchgen_core.workers.phases import phase
from patchgen_core.workers.rank_group import RanksFailed

if TYPE_CHECKING:
    from patchgen_core.parallel_plan.plan import ParallelPlan

_WHOLE_FIRST = ("conditional_generation", "causal_lm")
_TIMES, _SECONDS_MORE = 3.0, 5.0
_RANKS = f"patchgen_core.checks.sharded.training:{train_on_rank.__name__}"


def check_request(request: ModelRequest) -> CheckResult:
    """Make the comparison that a request asks for."""
    subject: ShardedRequest = request.subject
    upstream, generated = import_module(subject.upstream), generated_module(subject)
    heads = [head for head in find_heads(generated, upstream) if head.kind in _WHOLE_FIRST]
    heads.sort(key=lambda head: _WHOLE_FIRST.index(head.kind))
    heads = [head for head in heads if not any(fnmatchcase(head.name, pattern) for pattern, _ in subject.left_out)]
    if not heads:
        return make_result(skipped=f"{subject.module} has no model with a loss over tokens")
    head = heads[0]
    if reason := subject.settings.why_left_out(head.name, subject.mesh.name):
        return make_result(skipped=f"{head.name}: {reason}")
    with name_head_in_errors(head.name):
        return _check(head, subject, request)


def _check(head: Head, subject: ShardedRequest, request: ModelRequest) -> CheckResult:
    reference = _reference(head, subject)
    batches = choose_batches(reference.batches.batches)
    whole = _whole_training(reference, tuple(batch.name for batch in batches))
    training = replace(whole, model_class=head.generated)
    task = RankTask(training, subject.mesh, _read_plan(subject, head, request))
    start = time.monotonic()
    try:
        with phase("sharded models"):
            ranks = _ask(task, subject, request)
    except RanksFailed as failure:
        own = _limit_seconds(subject, _TIMES * (time.monotonic() - start) + _SECONDS_MORE)
        origin = _find_origin(task, whole, own, request) if failure.rank is not None else None
        return make_result([explain_rank_failure(failure, head, subject, origin)])
    with phase("one process"):
        eager, truth = (_train_whole(whole, dtype) for dtype in (torch.float32, torch.float64))
    compared = compare_trained(ranks, eager, truth, subject.mesh, batches, subject.settings.tolerance)
    problems: Sequence[Problem] = ()
    if not compared.is_right:
        with phase("explaining"):
            layers = _compare_layers(task, whole, subject, request, is_mean=compared.are_means_wrong)
            problems = explain_differences(head, subject, compared, layers)
    notes = (f"{head.name}, batches {', '.join(repr(batch.name) for batch in batches)}",)
    return make_result(problems, notes=notes, figures=compared.figures, tables=compared.tables(head.name))


def _ask(task: RankTask, subject: ShardedRequest, request: ModelRequest) -> list[Trained]:
    return ask_ranks(_RANKS, task, subject.mesh.ranks, subject.settings.time_limit, request.setups)


def _compare_layers(
    task: RankTask, whole: Training, subject: ShardedRequest, request: ModelRequest, *, is_mean: bool
) -> Comparison | None:
    """What modules give, of another run, the loss a mean where it ``is_mean``; None where it fails."""
    if is_mean:
        whole, task = replace(whole, items=0), replace(task, training=replace(task.training, items=0))
    try:
        spans = spans_of(subject.path, subject.patches)
        ranks = _ask(replace(task, keeps_layers=True, spans=spans), subject, request)
    except (RanksFailed, PatchgenError):
        return None
    eager, truth = (train_whole(whole, dtype, keeps_layers=True) for dtype in (torch.float32, torch.float64))
    return compare_trained(ranks, eager, truth, subject.mesh, task.training.batches, subject.settings.tolerance)


def _limit_seconds(subject: ShardedRequest, seconds: float) -> ShardedRequest:
    """The request with no more time for its ranks, of whom some may wait for those that raise."""
    limit = min(subject.settings.time_limit, seconds)
    return replace(subject, settings=replace(subject.settings, time_limit=limit))


def _find_origin(task: RankTask, whole: Training, subject: ShardedRequest, request: ModelRequest) -> Origin | None:
    """The patch that lies before an error of ranks, of another run."""
    with phase("explaining"):
        try:
            layers = _compare_layers(replace(task, until_error=True), whole, subject, request, is_mean=False)
        finally:
            end_ranks(subject.mesh.ranks, request.setups)
        return find_origin(layers, subject.patches) if layers is not None else None


@functools.lru_cache(maxsize=2)
def _whole_training(reference: Reference, names: tuple[str, ...]) -> Training:
    """What one process trains: the same object for every mesh of a model, so that it is trained once."""
    chosen = [batch for batch in reference.batches.batches if batch.name in names]
    items = count_items(chosen) if takes_items(reference.head.upstream) else 0
    return Training(reference.head.upstream, reference.config, reference.state, tuple(chosen), items)


@functools.lru_cache(maxsize=2)
def _train_whole(training: Training, dtype: torch.dtype) -> Trained:
    return train_whole(training, dtype)


def _reference(head: Head, subject: ShardedRequest) -> Reference:
    config_class = head.upstream.config_class
    assert config_class is not None
    toy_root = Path(subject.toy_root) if subject.toy_root else None
    with phase("toy configurations"):
        config = load_toy_config(config_class, subject.toy_config, toy_root, config_class.model_type)
    return references().get(head, config, tuple(map(load_builder, subject.batches)), "cpu")


def choose_batches(batches: Sequence[ToyBatch]) -> list[ToyBatch]:
    """Two that are unlike: the first with labels, with pictures where the model sees, and packed text.

    PatchgenError where there are no two.
    """
    labelled = [batch for batch in batches if "labels" in batch.inputs]
    text = [batch for batch in labelled if batch.name == "packed"] or labelled[1:]
    if not text:
        raise PatchgenError("two ranks need two toy batches with labels, and there are fewer")
    return [labelled[0], text[0]]


def _read_plan(subject: ShardedRequest, head: Head, request: ModelRequest) -> ParallelPlan | None:
    if not subject.plan or "ep" not in subject.mesh.needs:
        return None
    module = import_module(subject.plan)
    make = one_function(module, lambda name: name == "get_parallel_plan", "get_parallel_plan()")
    return read_plan(make_plan(make, head.generated), tuple(model_setup(request).plan_readers))
