"""What upstream's toy models compute; made once for all implementations of a family."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from typing import TYPE_CHECKING

import torch

from patchgen_core.errors import PatchgenError
from patchgen_core.models.batches import Batches, Builder, ToyBatch, ToyModel
from patchgen_core.models.kept_runs import KeptRun, KeptRuns
from patchgen_core.models.model_heads import Head
from patchgen_core.models.model_history import History
from patchgen_core.models.model_run import Run, run_model
from patchgen_core.models.toy_batches import BatchRequests, make_batches, make_further_batches
from patchgen_core.models.toy_models import (
    State,
    auto_models,
    build_model,
    in_float64,
    initial_values,
    load_state,
    random_state,
)
from patchgen_core.workers.phases import phase

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


class Reference:
    """One upstream class, built from a toy configuration with random parameters, in the dtypes that are asked for.

    ``builders`` are the project's, of batches; ``seed`` is that of the random parameters.
    PatchgenError when upstream's class does not take the configuration.
    ``kept`` are the kept runs of the request, None where it uses none.
    ``initial`` has mean and standard deviation of parameters as upstream initializes them, by name; ``state`` their
    values here (:func:`~patchgen_core.models.toy_models.random_state`).
    """

    def __init__(
        self, head: Head, config: PreTrainedConfig, builders: Sequence[Builder], device: str, seed: int = 0
    ) -> None:
        self.head, self.config, self.device = head, config, device
        self.builders = tuple(builders)
        self._models: dict[torch.dtype, PreTrainedModel] = {}
        self._further: dict[BatchRequests, Batches] = {}
        self._runs: dict[tuple[str, torch.dtype, torch.dtype | None], Run] = {}
        self.kept: KeptRuns | None = None
        self._histories: dict[torch.dtype, History] = {}
        with phase("building models"):
            with auto_models():
                self._first = build_model(head.upstream, config, torch.float32)
            self.initial = initial_values(self._first)
            self.state: State = random_state(self._first, seed)

    @property
    def toy(self) -> ToyModel:
        """Upstream's model, in float32 on the CPU."""
        return ToyModel(self._first, self.head.kind)

    @cached_property
    def batches(self) -> Batches:
        """The batches that upstream's model runs; PatchgenError when it refuses a batch of the project."""
        with phase("making batches"):
            return make_batches(self.toy, self.builders)

    def make(self, build: BatchRequests) -> Batches:
        """The batches that upstream's model runs of those that are built in beside these; kept."""
        if build not in self._further:
            with phase("making batches"):
                self._further[build] = make_further_batches(self.toy, build)
        return self._further[build]

    def run(
        self, batch: ToyBatch, dtype: torch.dtype, like: torch.dtype | None = None, *, layers: bool = False
    ) -> Run:
        """What upstream's eager model computes of a batch; kept.

        PatchgenError when it fails, or its loss is no finite number. ``like`` is the dtype of the run whose routers'
        choices count where rounding decides; None for its own. ``layers`` keeps what every module is given and gives.
        """
        followed = self.run(batch, like) if like is not None else None
        is_routed = followed is not None and followed.choices is not None and bool(followed.choices.indices)
        key = (batch.name, dtype, like if is_routed else None)
        if key not in self._runs and not layers:
            self._runs[key] = self._find_or_run(batch, dtype, followed)
        if layers and (key not in self._runs or not self._runs[key].layers):
            self._runs[key] = self._run(batch, dtype, followed, layers)
        return self._runs[key]

    def _find_or_run(self, batch: ToyBatch, dtype: torch.dtype, like: Run | None) -> Run:
        """A kept run of a model in the state that this one is in, or a new one."""
        kept, history = self.kept, self._histories.setdefault(dtype, History())
        name = kept.name(self._described, history.state, batch, dtype, like) if kept is not None else ""
        if kept is None or not name:
            return self._run(batch, dtype, like, layers=False)
        entry = kept.find(name)
        if entry is not None:
            history.skip(entry.state, partial(self._run_model, batch, dtype, like))
            return entry.run
        run = self._run(batch, dtype, like, layers=False)
        kept.add(name, KeptRun(run, history.state))
        return run

    @cached_property
    def _described(self) -> str:
        return self.kept.describe(self.head, self.config, self.state, self.device) if self.kept is not None else ""

    def use_kept(self, kept: KeptRuns | None) -> None:
        """Use the kept runs of a request."""
        if kept is not self.kept:
            self.kept = kept
            vars(self).pop("_described", None)

    def run_exactly(self, batch: ToyBatch, choices_of: torch.dtype, *, layers: bool = False) -> Run:
        """What upstream's model computes of a batch in float64, with the choices of its routers in another dtype.

        It is that of a training step on the batch, where the mode changes nothing. PatchgenError as for :meth:`run`.
        """
        trained = batch.trained
        if trained is None or (layers and not batch.mode.is_training_step):
            return self.run(batch, torch.float64, like=choices_of, layers=layers)
        if not self._is_as_trained(batch, trained, choices_of):
            return self.run(batch, torch.float64, like=choices_of, layers=layers)
        run = self.run(trained, torch.float64, like=choices_of, layers=layers)
        return run.with_calls_of(self.run(batch, choices_of, layers=True)) if layers else run

    def _is_as_trained(self, batch: ToyBatch, trained: ToyBatch, dtype: torch.dtype) -> bool:
        own, other = self.run(batch, dtype), self.run(trained, dtype)
        if batch.mode.is_watched and not _has_same_choices(own, other):
            return False
        if batch.mode.is_training_step:
            return True
        return all(_is_same(value, other.values.get(name)) for name, value in own.values.items())

    def _run(self, batch: ToyBatch, dtype: torch.dtype, like: Run | None, layers: bool) -> Run:
        where = f"upstream's {self.head.name} in {str(dtype).removeprefix('torch.')}, batch '{batch.name}'"
        try:
            with phase("references"):
                model, history = self._model(dtype), self._histories.setdefault(dtype, History())
                with history.of(model):
                    run = self._run_model(batch, dtype, like, layers)
        except Exception as error:
            text = " ".join(str(error).split())
            message = f"{where}, cannot serve as the reference: it raises {type(error).__name__}: {text}"
            raise PatchgenError(message, hint="Give it another toy config or another batch.") from error
        if not bool(run.loss.isfinite()):
            raise PatchgenError(f"{where}, cannot serve as the reference: its loss is {float(run.loss)}")
        return run

    def _run_model(self, batch: ToyBatch, dtype: torch.dtype, like: Run | None, layers: bool = False) -> Run:
        with in_float64() if dtype is torch.float64 else nullcontext():
            return run_model(self._model(dtype), batch, like=like, layers=layers)

    def _model(self, dtype: torch.dtype) -> PreTrainedModel:
        if dtype not in self._models:
            with phase("building models"):
                self._models[dtype] = self._build(dtype)
        return self._models[dtype]

    def _build(self, dtype: torch.dtype) -> PreTrainedModel:
        has_run = "batches" in vars(self)
        if dtype is torch.float32 and self.device == "cpu" and not has_run:
            return self._first
        with auto_models():
            model = build_model(self.head.upstream, self.config, dtype, self.device)
        load_state(model, self.state)
        return model


def _has_same_choices(own: Run, other: Run) -> bool:
    return own.choices is not None and other.choices is not None and own.choices.are_those_of(other.choices)


def _is_same(value: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    return value is not None and other is not None and torch.equal(value, other)


class References:
    """The references of one upstream module; those of another take their place. ``kept`` are runs of earlier
    processes that the ones that are asked for may use; None for none."""

    def __init__(self) -> None:
        self.kept: KeptRuns | None = None
        self._module = ""
        self._cache: dict[tuple[str, str, tuple[Builder, ...], str, int], Reference] = {}

    def get(
        self, head: Head, config: PreTrainedConfig, builders: Sequence[Builder], device: str, seed: int = 0
    ) -> Reference:
        """The reference of a head, as :class:`Reference` makes it."""
        if self._module != head.upstream.__module__:
            self._module = head.upstream.__module__
            self._cache.clear()
        key = (head.name, config.to_json_string(use_diff=False), tuple(builders), device, seed)
        if key not in self._cache:
            self._cache[key] = Reference(head, config, builders, device, seed)
        self._cache[key].use_kept(self.kept)
        return self._cache[key]
