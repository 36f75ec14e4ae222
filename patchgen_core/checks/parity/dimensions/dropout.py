"""The dimension ``dropout``: dropout and jitter above zero, in training and in evaluation."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.checks.parity.dimensions.batch_choice import choose_batch
from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.modes import combine_modes
from patchgen_core.models.modes_attention import SDPA, attention_mode, is_supported
from patchgen_core.models.modes_noise import NOISE, NOISY, NOISY_IN_EVALUATION, find_noise

_WORDS = (*NOISE, "noise")


def find_noise_names(subject: Subject) -> list[str]:
    """The names in patched code that have to do with noise."""
    return sorted(name for name in subject.names if name.isidentifier() and any(word in name for word in _WORDS))


def _find_reason(subject: Subject) -> str:
    names = find_noise_names(subject)
    if not find_noise(subject.toy.config) or not (names or "training" in subject.names):
        return ""
    if subject.has_kernels or not subject.is_main:  # seen in upstream's lines, on the main head
        return ""
    return f"patches, or what they replace, name {names[0] if names else 'training'}"


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    if not find_noise(subject.toy.config):
        return
    if batch := choose_batch(subject, is_for_towers=True):
        yield batch.in_mode(NOISY)
        yield batch.in_mode(NOISY_IN_EVALUATION)
        if is_supported(subject.toy.model, SDPA):  # which drops what it is told to, in evaluation as well
            yield batch.in_mode(combine_modes(attention_mode(SDPA), NOISY_IN_EVALUATION))


DIMENSION = Dimension("dropout", _find_reason, _make_batches)
