"""Which batches of a training step a head is run on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from patchgen_core.checks.parity.request import ParityRequest
from patchgen_core.checks.parity.slot_users import find_users
from patchgen_core.checks.parity.training_plan import plan_training
from patchgen_core.errors import Location
from patchgen_core.models.batches import ToyBatch

pytestmark = pytest.mark.torch


def make_batch(name: str, tokens: int, covered_by: str = "", seen_in: str = "", **more: object) -> ToyBatch:
    ids = torch.zeros(1, tokens, dtype=torch.long)
    return ToyBatch(name, {"input_ids": ids, "labels": ids, **more}, covered_by, seen_in=seen_in)


BATCHES = (
    make_batch("pictures", 16, pixel_values=torch.zeros(1, 3)),
    make_batch("padded", 18, seen_in="pictures"),
    make_batch("rows", 18, covered_by="padded"),
    make_batch("embedded", 5, inputs_embeds=torch.zeros(1, 5, 64)),
    make_batch("small", 6),
)


def plan(
    implementation: str, *, is_main: bool = False, has_new_code: bool = False, level: str = "standard"
) -> list[str]:
    request = ParityRequest("", "", "", implementation, Location("", 0), level=level)
    is_short = implementation == "grouped_mm"
    planned = plan_training(request, BATCHES, is_main, has_new_code, lambda: is_short)
    return [f"{batch.name} {dtype}" for dtype, batch in planned]


def test_the_main_head_leaves_out_in_further_dtypes_what_another_batch_covers() -> None:
    assert plan("eager", is_main=True) == [
        *("pictures float32", "padded float32", "rows float32", "embedded float32", "small float32"),
        *("pictures bfloat16", "padded bfloat16", "embedded bfloat16", "small bfloat16"),
    ]


def test_a_head_without_patched_code_of_its_own_runs_what_is_most_general_and_what_is_smallest() -> None:
    assert plan("eager") == ["pictures float32", "small float32"]
    assert plan("eager_through_slots") == ["small float32"]
    assert plan("eager", has_new_code=True) == plan("eager", is_main=True)


def test_kernels_run_first_where_there_are_fewest_tokens_and_not_on_what_they_see_elsewhere() -> None:
    assert plan("grouped_mm", is_main=True) == [
        *("embedded float32", "pictures float32", "small float32"),
        "embedded bfloat16",
    ]
    assert plan("grouped_mm", has_new_code=True) == ["embedded float32"]
    assert plan("grouped_mm") == []


def test_users_of_a_slot_are_found_through_functions_and_classes(tmp_path: Path) -> None:
    module = tmp_path / "patched.py"
    module.write_text(
        "def rotate(q):\n    return rope_slot(q)\n\n\n"
        "class Attention:\n    def forward(self, q):\n        return rotate(q)\n\n\n"
        "class Layer:\n    def __init__(self):\n        self.attention = Attention()\n\n\n"
        "class Tower:\n    def forward(self, q):\n        return q\n"
    )
    request = ParityRequest("patched", str(module), "", "liger_kernel", Location("", 0))
    assert find_users(request, ["rope_slot['full']"]) == {"rotate", "Attention", "Layer"}
    assert find_users(request, ["other_slot"]) == frozenset()
