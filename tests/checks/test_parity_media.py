"""Defects that show only with other media than one picture a row and a video at the usual rate."""

from __future__ import annotations

import importlib
import inspect
import textwrap

import pytest

from tests.checks.parity_runs import compare
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

UPSTREAM = "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl"
PREAMBLE = f"""
from __future__ import annotations

from patchgen import PatchConfig

config = PatchConfig("{UPSTREAM}", "patched_modeling_toy_gpu.py")
"""
DEFECTS = {
    "rate of videos": (
        "get_rope_index",
        "tokens_per_second * next(second_per_grid_ts)",
        "tokens_per_second",
        "videos first",
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


def edited(method: str, old: str, new: str) -> str:
    """A patch of a method of the model with one piece of upstream's text replaced."""
    model = importlib.import_module(UPSTREAM).Qwen2_5_VLModel
    text = textwrap.dedent(inspect.getsource(inspect.unwrap(getattr(model, method))))
    assert text.count(old) == 1
    body = text.replace(old, new)
    return f'@config.override_method("Qwen2_5_VLModel.{method}")\n{body[body.index("def ") :]}'


@pytest.mark.parametrize(("method", "old", "new", "batch"), DEFECTS.values(), ids=list(DEFECTS))
def test_a_defect_is_red_on_the_batch_that_shows_it(
    work: Workspace, method: str, old: str, new: str, batch: str
) -> None:
    result = compare(work, edited(method, old, new), preamble=PREAMBLE)
    (problem,) = result.errors
    told = f"{problem.message} {problem.hint}"
    assert f"'{batch}'" in told
    assert f"'Qwen2_5_VLModel.{method}'" in told


def test_upstreams_own_text_is_green(work: Workspace) -> None:
    same = "image_embeds = torch.cat("
    assert compare(work, edited("forward", same, same), preamble=PREAMBLE).errors == ()
