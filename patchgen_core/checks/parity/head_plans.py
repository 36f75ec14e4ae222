"""What the heads of a generated module are run on, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.checks.parity.dimensions.registry import vary
from patchgen_core.checks.parity.request import ParityRequest
from patchgen_core.checks.parity.slot_users import choose_for_kernels
from patchgen_core.checks.parity.subjects import make_subject
from patchgen_core.checks.parity.training_plan import list_classes, plan_training
from patchgen_core.models.batches import ToyBatch, describe_batch
from patchgen_core.models.execution import ExecutionRecorder
from patchgen_core.models.model_heads import Head
from patchgen_core.models.model_setup import PATCHED
from patchgen_core.models.references import Reference
from patchgen_core.models.toy_config import load_toy_config, part_of_toy_config
from patchgen_core.ops.kernel_spec import EAGER
from patchgen_core.project.parity_settings import THOROUGH
from patchgen_core.workers.phases import phase

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


@dataclass
class HeadPlans:
    """What the heads of a module are run on, one after the other.

    ``skipped`` are the heads that are not compared on purpose, and why; ``parts`` the class names of every head's
    modules by path; ``varied`` the heads by what is varied beside training steps, and why; ``classes`` are those of
    all heads' modules so far; ``is_kernel_alone`` tells whether another implementation runs all that this one does,
    but for kernels, and ``kernel_users`` are the classes and functions that use these.
    """

    request: ParityRequest
    recorder: ExecutionRecorder
    notes: list[str] = field(default_factory=list, kw_only=True)
    parts: dict[str, Mapping[str, str]] = field(default_factory=dict, kw_only=True)
    varied: dict[str, list[str]] = field(default_factory=dict, kw_only=True)
    skipped: dict[str, str] = field(default_factory=dict, kw_only=True)
    classes: set[str] = field(default_factory=set, kw_only=True)
    is_kernel_alone: bool = field(default=False, kw_only=True)
    kernel_users: frozenset[str] = field(default=frozenset(), kw_only=True)
    _main: type[PreTrainedConfig] | None = field(default=None, init=False)

    def plan(self, head: Head, reference: Reference, is_main: bool) -> Iterator[tuple[str, ToyBatch]]:
        """What to run a head on, and in which dtype: training steps first; ``varied`` then says of each batch why."""
        request = self.request
        patched = {patch.target.partition(".")[0] for patch in request.patches}
        is_patched, classes = head.name in patched, list_classes(reference.toy.model)
        has_new_code = bool(patched & classes - self.classes) or request.level == THOROUGH
        self.classes |= classes
        batches = self._wanted_batches(head, reference)
        own = choose_for_kernels(reference.toy, batches, self.kernel_users) if self.is_kernel_alone else batches
        plan = plan_training(
            request, own, is_main, has_new_code, lambda: self.is_kernel_alone or self.recorder.is_interpreted
        )
        is_contained = any(head.name in kinds.values() for kinds in self.parts.values())
        if is_main or (is_patched and not is_contained):
            plan = chain(plan, self._vary(head, reference, batches, is_main))
        return iter(plan)

    def note_batch(self, batch: ToyBatch) -> None:
        """Say once what a batch of a training step passes."""
        note = f"batch '{batch.name}' passes {describe_batch(batch)}"
        if not batch.mode.name and not batch.changes and note not in self.notes:
            self.notes.append(note)

    def config(self, head: Head, is_main: bool) -> PreTrainedConfig:
        """The toy configuration of a head; the patch config's own is for the main one and its like, and its parts."""
        config_class = head.upstream.config_class
        assert config_class is not None
        request, model_type = self.request, config_class.model_type
        toy_root = Path(request.toy_root) if request.toy_root else None
        self._main = config_class if is_main else self._main
        toy_config = request.toy_config
        if self._main is not None and config_class is not self._main:
            toy_config = part_of_toy_config(config_class, self._main, toy_config)
        with phase("toy configurations"):
            return load_toy_config(config_class, toy_config, toy_root, model_type)

    def _vary(
        self, head: Head, reference: Reference, batches: Sequence[ToyBatch], is_main: bool
    ) -> Iterator[tuple[str, ToyBatch]]:
        """What to run beside training steps, in the first dtype unless a batch is for the last; nothing where kernels
        are interpreted in the place of eager functions, with which another implementation runs it."""
        if self.recorder.is_interpreted and self.request.implementation not in (EAGER, PATCHED):
            return
        subject = make_subject(self.request, reference, batches, is_main=is_main, is_kernel_alone=self.is_kernel_alone)
        for sentence, variations in vary(subject, self.request.level, self.recorder.is_interpreted):
            self.varied.setdefault(sentence, []).append(head.name)
            for batch in variations:
                if not self.request.why_left_out(head.name, batch.name):
                    yield self.request.dtypes[-1 if batch.is_narrow else 0], batch

    def _wanted_batches(self, head: Head, reference: Reference) -> list[ToyBatch]:
        """The batches that the project does not leave out; a note tells of those that it does."""
        batches: list[ToyBatch] = []
        reasons: list[str] = []
        for batch in reference.batches.batches:
            if reason := self.request.why_left_out(head.name, batch.name):
                self.notes.append(f"{head.name}, batch '{batch.name}' is left out: {reason}")
                reasons.append(reason)
            else:
                batches.append(batch)
        if reasons and not batches:
            self.skipped[head.name] = "; ".join(dict.fromkeys(reasons))
        return batches
