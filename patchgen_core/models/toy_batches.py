"""All batches that a toy model is run on: the built-in ones and a project's, tried on upstream's model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import torch

from patchgen_core.errors import Location, PatchgenError
from patchgen_core.models.batch_validation import describe_error, unheeded_options, why_mixed, why_refused, why_unseen
from patchgen_core.models.batches import Batches, Builder, ToyBatch, ToyModel, WantedBatches
from patchgen_core.models.batches_audio import audio_batches
from patchgen_core.models.batches_pictures import picture_batches
from patchgen_core.models.batches_text import text_batches
from patchgen_core.models.batches_training import training_batches
from patchgen_core.models.batches_video import video_batches
from patchgen_core.models.project_function import Role, load_function

_BUILDER = Role("builder of toy batches", "must build toy batches", "It must take a ToyModel and return ToyBatches.")
_BUILT_IN = (picture_batches, video_batches, audio_batches, text_batches, training_batches)

BatchRequests = Callable[[ToyModel], Iterator[WantedBatches]]


def make_batches(toy: ToyModel, more: Sequence[Builder] = ()) -> Batches:
    """The batches that upstream's model runs, the most general one first.

    Parameters, buffers and torch's random state are the same afterwards. A batch of the project's builders (``more``)
    takes the place of the built-in one of its name, or comes after all of them.

    Raises:
        PatchgenError: a project's builder fails, gives something else than batches or two of one name, or
            upstream's model does not run what it gives.
    """
    with _preserve_state(toy):
        own = _own_batches(toy, more)
        batches: dict[str, ToyBatch] = {}
        refused: list[str] = []
        for request in _batch_requests(toy, refused):
            batch = own.get(request.name) or _first_that_runs(toy, request)
            if isinstance(batch, ToyBatch):
                unheeded = unheeded_options(toy, batch.inputs) if request.name not in own else []
                refused += [f"{request.name}: its loss ignores {name}" for name in unheeded]
                inputs = {name: value for name, value in batch.inputs.items() if name not in unheeded}
                batches[request.name] = replace(batch, inputs=inputs)
            else:
                refused.append(f"{request.name}: {batch}")
    run = tuple((batches | own).values())
    if not run and not refused:
        refused.append(f"there are no built-in batches for {type(toy.model).__name__}")
    return Batches(run, tuple(refused))


def make_further_batches(toy: ToyModel, build: BatchRequests) -> Batches:
    """The batches that the model runs of those that a built-in builder wants beside :func:`make_batches`."""
    refused: list[str] = []
    with _preserve_state(toy):
        results = {wanted.name: _first_that_runs(toy, wanted) for wanted in _batch_requests(toy, refused, (build,))}
    refused += [f"{name}: {reason}" for name, reason in results.items() if isinstance(reason, str)]
    return Batches(tuple(batch for batch in results.values() if isinstance(batch, ToyBatch)), tuple(refused))


def _batch_requests(
    toy: ToyModel, refused: list[str], builders: Sequence[BatchRequests] = _BUILT_IN
) -> Iterator[WantedBatches]:
    """What built-in builders want; a line in ``refused`` for a builder that cannot read the configuration."""
    for build in builders:
        try:
            yield from build(toy)
        except Exception as error:
            refused.append(f"{build.__name__}: {describe_error(error)}")


@contextmanager
def _preserve_state(toy: ToyModel) -> Iterator[None]:
    """Leave the model's buffers and the random state as they were."""
    before = [(buffer, buffer.clone()) for buffer in toy.model.buffers()]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            yield
        finally:
            for buffer, value in before:
                buffer.copy_(value)


def _first_that_runs(toy: ToyModel, request: WantedBatches) -> ToyBatch | str:
    """The batch in the first form that the model runs, or why it runs none."""
    reasons = []
    for form in request.forms:
        try:
            inputs = form()
        except Exception as error:  # whatever a model says of what it does not take
            reasons.append(describe_error(error))
            continue
        reason = (
            why_refused(toy, inputs)
            or why_mixed(toy, inputs, request.separate)
            or why_unseen(toy, inputs, request.media)
        )
        if not reason:
            about = request.about
            return ToyBatch(request.name, inputs, request.covered_by, request.as_rank, request.seen_in, about=about)
        reasons.append(reason)
    if not reasons:
        return "the form in which the model takes it is not known"
    return "; in another form: ".join(dict.fromkeys((reasons[0], reasons[-1])))


def _own_batches(toy: ToyModel, builders: Sequence[Builder]) -> dict[str, ToyBatch]:
    """What a project's builders give, by name, all of which the model runs."""
    batches: dict[str, ToyBatch] = {}
    for builder in builders:
        for batch in _built(toy, builder):
            if batch.name in batches:
                raise _error(builder, f"gives a second toy batch '{batch.name}'", "Give each batch a name of its own.")
            if reason := why_refused(toy, batch.inputs):
                message = f"gives the toy batch '{batch.name}' for {toy.model_type}, which upstream's "
                message += f"{type(toy.model).__name__} does not run: {reason}"
                raise _error(builder, message, f"It takes: {', '.join(sorted(toy.takes - {'kwargs'}))}.")
            batches[batch.name] = batch
    return batches


def _built(toy: ToyModel, builder: Builder) -> list[ToyBatch]:
    hint = "Return a list of patchgen_core.parity.batches.ToyBatch."
    try:
        result: Any = builder(toy)
        batches = [result] if isinstance(result, ToyBatch) else list(result or ())
    except Exception as error:
        message = f"fails for {type(toy.model).__name__} of {toy.model_type}: {describe_error(error)}"
        raise _error(builder, message, hint) from error
    for value in batches:
        if not isinstance(value, ToyBatch):
            raise _error(builder, f"gives {type(value).__name__} instead of a ToyBatch", hint)
    return batches


def _error(builder: Builder, what: str, hint: str = "") -> PatchgenError:
    code = getattr(builder, "__code__", None)
    location = Location(code.co_filename, code.co_firstlineno) if code is not None else None
    name = getattr(builder, "__qualname__", type(builder).__name__)
    return PatchgenError(f"the builder of toy batches '{name}' {what}", location, hint)


def load_builder(reference: str) -> Builder:
    """A project's builder of toy batches, by reference (:func:`~patchgen_core.models.project_function.load_function`).

    Raises:
        PatchgenError: it names nothing that can be called, or the module cannot be imported.
    """
    return cast(Builder, load_function(reference, _BUILDER))
