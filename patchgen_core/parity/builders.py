"""All batches that a toy model is run on: the built-in ones and a project's, tried on upstream's model."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from patchgen_core.errors import Location, PatchgenError
from patchgen_core.parity.batches import Batches, Builder, ToyBatch, ToyModel, Wanted
from patchgen_core.parity.batches_pictures import picture_batches
from patchgen_core.parity.batches_text import random_ids, text_batches

_BUILT_IN = (picture_batches, text_batches)
_LONGEST = 240
_CLOSE = 1e-3


def make_batches(toy: ToyModel, more: Sequence[Builder] = ()) -> Batches:
    """The batches that upstream's model runs, the most general one first.

    Args:
        toy: the model. Its parameters and buffers, and torch's random state, are the same afterwards.
        more: the project's builders. A batch of theirs takes the place of the built-in one of its name, or comes
            after all of them.

    Raises:
        PatchgenError: a project's builder fails, gives something else than batches or two of one name, or upstream's
            model does not run what it gives.
    """
    with _unchanged(toy):
        own = _own_batches(toy, more)
        found: dict[str, ToyBatch] = {}
        refused: list[str] = []
        for wanted in (wanted for build in _BUILT_IN for wanted in build(toy)):
            made = own.get(wanted.name) or _first_that_runs(toy, wanted)
            if isinstance(made, ToyBatch):
                found[wanted.name] = made
            else:
                refused.append(f"{wanted.name}: {made}")
    return Batches(tuple((found | own).values()), tuple(refused))


@contextmanager
def _unchanged(toy: ToyModel) -> Iterator[None]:
    """Leave the model's buffers and the random state as they were."""
    before = [(buffer, buffer.clone()) for buffer in toy.model.buffers()]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        yield
        for buffer, value in before:
            buffer.copy_(value)


def _first_that_runs(toy: ToyModel, wanted: Wanted) -> ToyBatch | str:
    """The batch in the first form that the model runs, or why it runs none."""
    built, unbuilt = "", ""
    for form in wanted.forms:
        try:
            inputs = form()
        except Exception as error:  # whatever a model says of what it does not take
            unbuilt = unbuilt or _shown(error)
            continue
        reason = _refusal(toy, inputs) or _mixing(toy, inputs, wanted.separate)
        if not reason:
            return ToyBatch(wanted.name, inputs)
        built = built or reason
    return built or unbuilt


def _refusal(toy: ToyModel, inputs: Mapping[str, Any]) -> str:
    """Why the model does not run a batch; empty when it does."""
    try:
        output = _run(toy, inputs)
    except Exception as error:
        return _shown(error)
    name = next((name for name in ("loss", "logits", "last_hidden_state") if output.get(name) is not None), None)
    if name is not None and not torch.isfinite(output[name]).all():
        return f"its {name} is not finite"
    return ""


def _run(toy: ToyModel, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    torch.manual_seed(0)
    given = ToyBatch("", inputs).to(torch.float32, "cpu")
    output = toy.model(**given)
    return output if isinstance(output, Mapping) else {}


def _mixing(toy: ToyModel, inputs: Mapping[str, Any], first: int) -> str:
    """What is wrong with two sequences in one row, of which one is ``first`` tokens long; empty when nothing is."""
    if not first:
        return ""
    bare = {name: value for name, value in inputs.items() if name != "labels"}
    ids = bare["input_ids"].clone()
    ids[:, :first] = random_ids(toy, 1, first, seed=2)
    one, other = (_tokens(_run(toy, bare | {"input_ids": given})) for given in (bare["input_ids"], ids))
    if one is None or other is None or one.shape[:2] != ids.shape:
        return "it gives nothing for each token, so that nobody can tell whether it keeps packed sequences apart"
    if torch.allclose(one[:, first:], other[:, first:], rtol=_CLOSE, atol=_CLOSE):
        return ""
    return "transformers does not keep packed sequences apart: the second one sees the first"


def _tokens(output: Mapping[str, Any]) -> torch.Tensor | None:
    value = output.get("logits")
    return value if value is not None else output.get("last_hidden_state")


def _own_batches(toy: ToyModel, builders: Sequence[Builder]) -> dict[str, ToyBatch]:
    """What a project's builders give, by name, all of which the model runs."""
    found: dict[str, ToyBatch] = {}
    for builder in builders:
        for batch in _built(toy, builder):
            if batch.name in found:
                raise _error(builder, f"gives a second toy batch '{batch.name}'", "Give each batch a name of its own.")
            if reason := _refusal(toy, batch.inputs):
                message = f"gives the toy batch '{batch.name}' for {toy.model_type}, which upstream's "
                message += f"{type(toy.model).__name__} does not run: {reason}"
                raise _error(builder, message, f"It takes: {', '.join(sorted(toy.takes - {'kwargs'}))}.")
            found[batch.name] = batch
    return found


def _built(toy: ToyModel, builder: Builder) -> list[ToyBatch]:
    try:
        given = list(builder(toy) or ())
    except Exception as error:
        message = f"fails for {type(toy.model).__name__} of {toy.model_type}: {_shown(error)}"
        raise _error(builder, message) from error
    for value in given:
        if not isinstance(value, ToyBatch):
            hint = "Return a list of patchgen_core.parity.batches.ToyBatch."
            raise _error(builder, f"gives {type(value).__name__} instead of a ToyBatch", hint)
    return given


def _error(builder: Builder, what: str, hint: str = "") -> PatchgenError:
    code = getattr(builder, "__code__", None)
    location = Location(code.co_filename, code.co_firstlineno) if code is not None else None
    name = getattr(builder, "__qualname__", type(builder).__name__)
    return PatchgenError(f"the builder of toy batches '{name}' {what}", location, hint)


def _shown(error: Exception) -> str:
    """An error in a line, with the place that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename.replace(chr(92), '/').rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:_LONGEST]}{'...' if len(text) > _LONGEST else ''}{place}"
