"""The patched models of a comparison: built as upstream's are, with upstream's parameters."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from patchgen_core.checks.parity.initial_values import explain_other_start, find_owners_of_skipped
from patchgen_core.checks.parity.request import ParityRequest
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.models.batch_validation import describe_error
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.execution import ExecutionRecorder
from patchgen_core.models.model_heads import Head
from patchgen_core.models.model_setup import PATCHED, ModelSetup
from patchgen_core.models.process_state import preserve_process_state
from patchgen_core.models.project_function import place_of
from patchgen_core.models.references import Reference
from patchgen_core.models.toy_models import (
    auto_models,
    build_model,
    initial_values,
    initialized_otherwise,
    load_state,
)
from patchgen_core.ops.kernel_spec import EAGER

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass
class PatchedModels:
    """What builds the patched models of one implementation.

    ``notes`` and ``problems`` get what there is to tell; ``not_patched`` are the heads that AutoModel gives a model of
    upstream's, by the generated class of that.
    """

    request: ParityRequest
    device: str
    recorder: ExecutionRecorder
    setup: ModelSetup
    notes: list[str]
    problems: list[Problem]
    not_patched: dict[type, list[str]] = field(default_factory=dict)
    started_otherwise: dict[str, None] = field(default_factory=dict)
    _owners: set[type] = field(default_factory=set, init=False)
    _own_parts: dict[str, dict[type, type]] = field(default_factory=dict, init=False)

    def build(self, head: Head, reference: Reference, dtype: str, is_toy: bool = True) -> PreTrainedModel:
        """The patched model with upstream's parameters; also where AutoModel would put upstream's into it.

        Args:
            is_toy: whether the configuration is that of the toy, for which first values are compared.
        """
        parts = self._own_parts.setdefault(head.name, {})
        with auto_models(parts) if parts else nullcontext():
            model = self._build_patched(head, reference, dtype)
        if upstream_parts := self._find_upstream_parts(head, model):
            for own in upstream_parts.values():
                heads = self.not_patched.setdefault(own, [])
                heads += [head.name] * (head.name not in heads)
            parts.update(upstream_parts)
            with auto_models(parts):
                model = self._build_patched(head, reference, dtype)
        if is_toy:
            self._check_start(head, model, reference)
        load_state(model, reference.state)
        return model

    def _check_start(self, head: Head, model: PreTrainedModel, reference: Reference) -> None:
        """Parameters that do not start as upstream's do: told once for each, whichever heads have it."""
        if self.request.implementation not in (EAGER, PATCHED):
            return
        names = initialized_otherwise(initial_values(model), reference.initial)
        new = [name for name in names if not any(suffix.endswith(name) for suffix in self.started_otherwise)]
        self.started_otherwise.update(dict.fromkeys(new))
        if not new:
            return

        def build() -> PreTrainedModel:
            with auto_models(self._own_parts[head.name]), self.isolated():
                return build_model(head.generated, reference.config, torch.float32, self.device)

        owners = find_owners_of_skipped(head.generated, new, reference.initial, build)
        if not owners or not self._owners.issuperset(owners):
            self._owners.update(owners)
            self.problems.append(explain_other_start(head.generated, new, owners, self.request))

    def _find_upstream_parts(self, head: Head, model: PreTrainedModel) -> dict[type, type]:
        """The generated classes, by configuration class, for what AutoModel makes of upstream's.

        The model below a head is one, and so is any part for which there are patches, such as the text model of a
        model that sees.
        """
        module, base = sys.modules[head.generated.__module__], getattr(model, model.base_model_prefix, None)
        patched = {patch.target.partition(".")[0] for patch in self.request.patches}
        classes: dict[type, type] = {}
        outer: list[str] = []
        for path, part in model.named_modules():
            own = getattr(module, type(part).__name__, None)
            if own is None or type(part).__module__ != head.upstream.__module__ or not hasattr(part, "config_class"):
                continue
            if any(path.startswith(f"{name}.") for name in outer):  # comes with that
                continue
            if part is base or patched & {type(inner).__name__ for inner in part.modules()}:
                classes.setdefault(type(part.config), own)
                outer.append(path)
        return classes

    def _build_patched(self, head: Head, reference: Reference, dtype: str) -> PreTrainedModel:
        """Built as upstream's model was, from the same configuration: what fails here is the patched code."""
        try:
            with self.isolated(), self.recorder.recording():
                return build_model(head.generated, reference.config, getattr(torch, dtype), self.device)
        except PatchgenError as error:
            raise error.__cause__ or error from None

    def own_batch(self, model: PreTrainedModel, batch: ToyBatch) -> ToyBatch:
        """A batch with what the project's collator adds to it, where one has made it."""
        if not batch.mode.is_collated:
            return batch
        try:
            with self.isolated():
                return replace(batch, inputs=self.setup.inputs_for(model, batch.inputs))
        except Exception as error:
            name = type(model).__name__
            message = f"a function of add_inputs fails for {name}, batch '{batch.name}': {describe_error(error)}"
            raise PatchgenError(message, place_of(error)) from error

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Run patched code in the project's run time, and put back what it changes for upstream's; a note tells."""
        with preserve_process_state() as changes, self.setup.run_time():
            yield
        self.notes += [line for line in changes if line not in self.notes]
