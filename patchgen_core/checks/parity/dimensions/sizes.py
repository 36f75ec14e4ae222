"""The dimension ``sizes``: rows of sizes that patched code may not be made for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.checks.parity.patched_numbers import ROUNDED
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.batches_sizes import ONE_TOKEN, UNEVEN, SizedBatches
from patchgen_core.models.config_changes import Change

_ROUTED = re.compile(r"Expert|Router|Top_?[kK]|SparseMo[eE]|Mo[eE](Block|Layer|MLP)?$")
_SLOT = "moe_experts"
_ROWS = re.compile(r"attention_mask|^labels$|cu_seq|unpad|indexer")
_CHOSEN = "num_experts_per_tok"
_SEEN, _MOST = 8, 2048
"""Numbers from the first on are crossed, which every row of a toy batch does with smaller ones, up to the last."""

_TWICE = 1024
"""Numbers up to this one are crossed twice."""


def _find_reason(subject: Subject) -> str:
    reasons = []
    if _is_routed(subject):
        reasons.append("are about experts")
    elif names := _names_of_rows(subject):
        reasons.append(f"name {names[0]}")
    if not subject.has_kernels and (numbers := _numbers_crossed(subject)):
        reasons.append(f"have the number {max(numbers)}")
    return f"the patches {' and '.join(reasons)}" if reasons else ""


def _is_routed(subject: Subject) -> bool:
    classes = (target.partition(".")[0] for target in subject.targets)
    return _SLOT in subject.own_names or any(map(_ROUTED.search, classes))


def _names_of_rows(subject: Subject) -> list[str]:
    """The names that patches have of what tells the rows of a batch apart, where upstream's lines run."""
    names = [] if subject.has_kernels else sorted(filter(str.isidentifier, subject.own_names))
    return list(filter(_ROWS.search, names))


def _numbers_crossed(subject: Subject) -> set[int]:
    return {number for number in subject.numbers if _SEEN <= number <= _MOST}


def _length(numbers: Iterable[int]) -> int:
    """Tokens that cross each of some numbers, and are no multiple of the largest; 0 without numbers."""
    return max((number * (2 if number <= _TWICE else 1) + 1 for number in numbers), default=0)


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    routed, has_rows = _is_routed(subject), bool(_names_of_rows(subject)) or subject.is_thorough
    numbers = set() if subject.has_kernels else _numbers_crossed(subject)
    wanted = SizedBatches(routed or has_rows, _length(numbers), routed)
    for batch in subject.make(wanted).batches:
        if subject.has_kernels and batch.name != UNEVEN:
            continue
        batch = replace(batch, is_in_pieces=len(batch.inputs["input_ids"][0]) == wanted.length)
        yield batch
        if batch.name == ONE_TOKEN and routed:
            yield from _with_one_expert(subject, batch)
        if ROUNDED in numbers and len(batch.inputs["input_ids"][0]) > ROUNDED:
            yield replace(batch, name=f"{batch.name}, rounded", is_narrow=True)


def _with_one_expert(subject: Subject, batch: ToyBatch) -> Iterator[ToyBatch]:
    """One token that goes to one expert."""
    config = subject.toy.config
    text = config.get_text_config(decoder=True)
    if not isinstance(getattr(text, _CHOSEN, None), int):
        return
    path = next((f"{name}." for name, part in vars(config).items() if part is text), "")
    if path or text is config:
        yield batch.with_changes((Change(f"{_CHOSEN}=1", {f"{path}{_CHOSEN}": 1}),))


DIMENSION = Dimension("sizes", _find_reason, _make_batches)
