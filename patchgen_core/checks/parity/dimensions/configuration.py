"""The dimension ``configuration``: other values of the fields that patched code reads, many at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import torch

from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.config_changes import Change
from patchgen_core.models.config_values import declared_names, kind_of, list_changes
from patchgen_core.models.modes import EVALUATION
from patchgen_core.models.random_values import random_floats
from patchgen_core.models.toy_sizes import KINDS

_MOST_NAMED = 6
_CLASSIFIED = "sequence_classification"
_SEVERAL = "multi_label_classification"
_INPUTS = {"vision": ("pixel_values", "pixel_values_videos"), "audio": ("input_features", "input_audio_features")}


def _find_reason(subject: Subject) -> str:
    if subject.is_kernel_alone or (subject.is_thorough and not subject.read):
        return ""
    fields = dict.fromkeys(_field(change) for changes in _list(subject) for change in changes)
    names = list(fields)
    if subject.toy.kind == _CLASSIFIED and "problem_type" in subject.read:
        names.append("problem_type")
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"patches read {', '.join(names[:_MOST_NAMED])}{more}" if names else ""


def _list(subject: Subject) -> list[tuple[Change, ...]]:
    if subject.is_thorough:
        return list_changes(subject.toy.config, declared_names(subject.toy.config), {"text", *KINDS})
    return list_changes(subject.toy.config, subject.read, {"text", *map(kind_of, subject.targets)})


def find_changes(subject: Subject, fields: Collection[str]) -> list[Change]:
    """The changes of some fields, each alone, for what shows in another mode alone."""
    return [change for changes in _list(subject) for change in changes if _field(change) in fields]


def _field(change: Change) -> str:
    return change.name.partition("=")[0].rpartition(".")[2]


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    for changes in _list(subject):
        for batch in _choose_batches(subject.batches, changes):
            batch = _left_to_configuration(batch, changes)
            yield batch.with_changes(changes)
            own = tuple(change for change in changes if _field(change) in subject.read_in_head)
            if own and "labels" in batch.inputs and not subject.has_kernels:
                yield _without_labels(batch).with_changes(own)
    if subject.toy.kind == _CLASSIFIED and (subject.is_thorough or "problem_type" in subject.read):
        plain = next((batch for batch in subject.batches if "labels" in batch.inputs), None)
        yield from _classify(subject, plain) if plain is not None else ()


def _left_to_configuration(batch: ToyBatch, changes: Sequence[Change]) -> ToyBatch:
    """A batch that does not say itself what is changed in the configuration."""
    fields = set(map(_field, changes))
    return replace(batch, inputs={name: value for name, value in batch.inputs.items() if name not in fields})


def _without_labels(batch: ToyBatch) -> ToyBatch:
    """A batch of evaluation, whose logits a head may compute in other lines than those that its loss takes."""
    inputs = {name: value for name, value in batch.inputs.items() if name != "labels"}
    return replace(batch, name=f"{batch.name} without labels", inputs=inputs).in_mode(EVALUATION)


def _classify(subject: Subject, batch: ToyBatch) -> Iterator[ToyBatch]:
    """The other problems of classification, which take labels of their own, one of them on a row that needs no
    padding."""
    config, rows = subject.toy.config, len(batch.inputs["labels"])
    several = (random_floats(rows, config.num_labels or 1) > 0).float()
    yield _labelled(batch, several, Change(f"problem_type={_SEVERAL}", {"problem_type": _SEVERAL}))
    if subject.has_kernels and not subject.is_thorough:  # a kernel is for another problem than either
        return
    last = {
        name: value[-1:] if isinstance(value, torch.Tensor) and len(value) == rows else value
        for name, value in batch.inputs.items()
    }
    text = "" if config.get_text_config() is config else "text_config."
    changes = Change("num_labels=1", {"num_labels": 1}), Change("pad_token_id=None", {f"{text}pad_token_id": None})
    yield _labelled(replace(batch, inputs=last), random_floats(1), *changes)


def _labelled(batch: ToyBatch, labels: torch.Tensor, *changes: Change) -> ToyBatch:
    return replace(batch, inputs={**batch.inputs, "labels": labels}).with_changes(changes)


def _choose_batches(batches: Sequence[ToyBatch], changes: Sequence[Change]) -> list[ToyBatch]:
    """The first batch that has a medium for each part with a change; the smallest with padding for text alone."""
    paths = {path.rpartition(".")[0] for change in changes for path in change.values}
    wanted = [kind for kind, words in KINDS.items() if any(word in path for word in words for path in paths)]
    chosen: list[ToyBatch] = []
    for kind in wanted:
        chosen += [batch for batch in batches if any(name in batch.inputs for name in _INPUTS[kind])][:1]
    plain = [batch for batch in batches if "attention_mask" in batch.inputs and not _has_media(batch)]
    return list({batch.name: batch for batch in chosen}.values()) or (plain or list(batches))[:1]


def _has_media(batch: ToyBatch) -> bool:
    return any(name in batch.inputs for names in _INPUTS.values() for name in names)


DIMENSION = Dimension("configuration", _find_reason, _make_batches, is_for_interpreted=False)
