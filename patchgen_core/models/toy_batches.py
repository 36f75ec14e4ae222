"""All batches that a toy model is run on: the built-in ones and a project's, tried on upstream's model."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch

from patchgen_core.errors import Location, PatchgenError, did_you_mean, display_path
from patchgen_core.models.batch_validation import describe_error, why_mixed, why_refused, why_unseen
from patchgen_core.models.batches import Batches, Builder, ToyBatch, ToyModel, WantedBatches
from patchgen_core.models.batches_audio import audio_batches
from patchgen_core.models.batches_pictures import picture_batches
from patchgen_core.models.batches_text import text_batches
from patchgen_core.models.batches_training import training_batches
from patchgen_core.models.batches_video import video_batches

_BUILT_IN = (picture_batches, video_batches, audio_batches, text_batches, training_batches)


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
        for wanted in _wanted(toy, refused):
            batch = own.get(wanted.name) or _first_that_runs(toy, wanted)
            if isinstance(batch, ToyBatch):
                batches[wanted.name] = batch
            else:
                refused.append(f"{wanted.name}: {batch}")
    run = tuple((batches | own).values())
    if not run and not refused:
        refused.append(f"there are no built-in batches for {type(toy.model).__name__}")
    return Batches(run, tuple(refused))


def _wanted(toy: ToyModel, refused: list[str]) -> Iterator[WantedBatches]:
    """What the built-in builders want; a line in ``refused`` for a builder that cannot read the configuration."""
    for build in _BUILT_IN:
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


def _first_that_runs(toy: ToyModel, wanted: WantedBatches) -> ToyBatch | str:
    """The batch in the first form that the model runs, or why it runs none."""
    reasons = []
    for form in wanted.forms:
        try:
            inputs = form()
        except Exception as error:  # whatever a model says of what it does not take
            reasons.append(describe_error(error))
            continue
        reason = (
            why_refused(toy, inputs)
            or why_mixed(toy, inputs, wanted.separate)
            or why_unseen(toy, inputs, wanted.media)
        )
        if not reason:
            return ToyBatch(wanted.name, inputs, wanted.covered_by, wanted.as_rank, wanted.seen_in)
        reasons.append(reason)
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
        given = [result] if isinstance(result, ToyBatch) else list(result or ())
    except Exception as error:
        message = f"fails for {type(toy.model).__name__} of {toy.model_type}: {describe_error(error)}"
        raise _error(builder, message, hint) from error
    for value in given:
        if not isinstance(value, ToyBatch):
            raise _error(builder, f"gives {type(value).__name__} instead of a ToyBatch", hint)
    return given


def _error(builder: Builder, what: str, hint: str = "") -> PatchgenError:
    code = getattr(builder, "__code__", None)
    location = Location(code.co_filename, code.co_firstlineno) if code is not None else None
    name = getattr(builder, "__qualname__", type(builder).__name__)
    return PatchgenError(f"the builder of toy batches '{name}' {what}", location, hint)


def load_builder(reference: str) -> Builder:
    """A project's builder of toy batches, by reference: ``package.module:function``, or ``/path/file.py:function``.

    The latter is for a file that is no module of a package, such as a ``conftest.py``. It is run once for each
    process, and may import what lies beside it.

    Raises:
        PatchgenError: it names nothing that can be called, or the module cannot be imported.
    """
    place, colon, name = reference.rpartition(":")
    if not colon or not place or not name:
        hint = "Write package.module:function, or /path/file.py:function."
        raise PatchgenError(f"'{reference}' names no builder of toy batches", hint=hint)
    module = _run_file(Path(place)) if place.endswith(".py") else _import_module(place)
    value = getattr(module, name, None)
    if callable(value):
        return cast(Builder, value)
    lack = "has no" if value is None else f"has a {type(value).__name__} instead of a function"
    functions = [known for known, own in vars(module).items() if callable(own)]
    near = did_you_mean(name, functions) or "It is to take a ToyModel and to return ToyBatches."
    raise PatchgenError(f"{display_path(place)} {lack} '{name}', which is to build toy batches", hint=near)


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _unloaded(name, error) from error
        parent = error.name.rpartition(".")[0]
        paths = getattr(sys.modules.get(parent), "__path__", None) if parent else sys.path
        known = [f"{parent}.{module.name}".lstrip(".") for module in pkgutil.iter_modules(paths)]
        hint = did_you_mean(error.name, known) or f"Python looks in {', '.join(filter(None, paths or sys.path))}."
        message = f"there is no module '{error.name}', which '{name}' with builders of toy batches is in"
        raise PatchgenError(message, hint=hint) from None
    except Exception as error:
        raise _unloaded(name, error) from error


def _run_file(path: Path) -> ModuleType:
    name = f"patchgen_builders_{hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        files = [file.name for file in path.parent.glob("*.py")]
        raise PatchgenError(f"there is no file {display_path(path)}", hint=did_you_mean(path.name, files))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.absolute()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _unloaded(display_path(path), error) from error
    finally:
        sys.path.remove(str(path.parent.absolute()))
    return module


def _unloaded(place: str, error: Exception) -> PatchgenError:
    return PatchgenError(f"{place}, which is to build toy batches, cannot be imported: {describe_error(error)}")
