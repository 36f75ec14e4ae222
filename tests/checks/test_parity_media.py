"""Defects that show only with other media than one picture a row and a video at the usual rate."""

from __future__ import annotations

import pytest

from tests.checks.parity_runs import QWEN2_5_VL, compare, edited
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

DEFECTS = {
    "rate of videos": (
        "get_rope_index",
        "tokens_per_second * next(second_per_grid_ts)",
        "tokens_per_second",
        "videos first",
    ),
    "videos without a picture": (
        "forward",
        "inputs_embeds = inputs_embeds.masked_scatter(video_mask, video_embeds)",
        "inputs_embeds = inputs_embeds.masked_scatter(video_mask, video_embeds * (1 + (image_grid_thw is None)))",
        "videos alone",
    ),
    "text behind a picture that is cached": (
        "compute_3d_position_ids",
        "and (past_key_values_length > 0 or input_ids is None)",
        "and input_ids is None",
        "pictures, in two pieces",
    ),
    "placeholders among embeddings": (
        "get_placeholder_mask",
        "torch.full((), self.config.image_token_id,",
        "torch.full((), self.config.video_token_id,",
        "pictures in a row, embedded",
    ),
    "features that are there": (
        "forward",
        'if mm_encoder_outputs.get("image") is not None:',
        "if pixel_values is not None:",
        "features of pictures",
    ),
}


@pytest.mark.parametrize(("method", "old", "new", "batch"), DEFECTS.values(), ids=list(DEFECTS))
@pytest.mark.slow
def test_a_defect_is_red_on_the_batch_that_shows_it(
    work: Workspace, method: str, old: str, new: str, batch: str
) -> None:
    result = compare(work, edited(f"Qwen2_5_VLModel.{method}", {old: new}), preamble=QWEN2_5_VL)
    (problem,) = result.errors
    told = f"{problem.message} {problem.hint}"
    assert f"'{batch}'" in told
    assert f"'Qwen2_5_VLModel.{method}'" in told


COLLATED = """
@config.add_helper
def collate({parameters}):
    {body}


@config.override_method("Qwen2_5_VLForConditionalGeneration.get_metadata_collate_func", add=True)
def get_metadata_collate_func(self):
    return collate
"""
BY_NAME = ("pixel_values=None", "return {{}} if pixel_values is None else {{'pixel_values': pixel_values * {factor}}}")
WHOLE_BATCH = ("batch, padding", "batch['pixel_values'] = batch['pixel_values'] * {factor}")


@pytest.mark.parametrize(("parameters", "body"), [BY_NAME, WHOLE_BATCH], ids=["by name", "whole batch"])
@pytest.mark.slow
def test_what_a_models_collate_function_gives_is_what_forward_would_make(
    work: Workspace, parameters: str, body: str
) -> None:
    right, wrong = (COLLATED.format(parameters=parameters, body=body.format(factor=factor)) for factor in (1, 2))
    assert compare(work, right, preamble=QWEN2_5_VL).errors == ()
    (problem,) = compare(work, wrong, preamble=QWEN2_5_VL).errors
    assert problem.target == "Qwen2_5_VLForConditionalGeneration.get_metadata_collate_func"
    assert "'videos first, with metadata'" in f"{problem.message} {problem.hint}"


@pytest.mark.slow
def test_upstreams_own_text_is_green(work: Workspace) -> None:
    same = "image_embeds = torch.cat("
    assert compare(work, edited("Qwen2_5_VLModel.forward", {same: same}), preamble=QWEN2_5_VL).errors == ()
