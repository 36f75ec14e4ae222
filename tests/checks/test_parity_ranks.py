"""Towers that ranks share run on each of them, whatever its batch has."""

from __future__ import annotations

import pytest

from tests.checks.parity_runs import QWEN2_5_VL, compare, edited
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

DUMMY = """
@config.override_method("Qwen2_5_VisionTransformerPretrainedModel.dummy_forward", add=True)
def dummy_forward(self):
    projection, side = self.patch_embed.proj, self.config.spatial_merge_size
    size = projection.in_channels * torch.Size(projection.kernel_size).numel()
    grid_thw = torch.tensor([[1, side, side]])
    output = self(projection.weight.new_zeros(side * side, size), grid_thw=grid_thw, return_dict=True)
    return (output.pooler_output * 0.0).sum()


"""
SCATTER = "        inputs_embeds = inputs_embeds.masked_scatter({0}_mask, {0}_embeds)\n"
RUN = """\
    elif torch.distributed.is_initialized():
        inputs_embeds = inputs_embeds + self.visual.dummy_forward()
"""
DEFECTS = {
    "for pictures alone": (
        ("video",),
        DUMMY,
        "'model.visual' (Qwen2_5_VisionTransformerPretrainedModel) does not run equally often",
    ),
    "without gradients": (
        (),
        DUMMY.replace(".sum()", ".sum().detach()"),
        "batch 'rank' gives no gradient to model.visual.",
    ),
    "before the merger": (
        (),
        DUMMY.replace("pooler_output", "last_hidden_state"),
        "gives no gradient to model.visual.merger.",
    ),
}


def patches(dummy: str, left_out: tuple[str, ...] = ()) -> str:
    """A model that runs its tower for pictures and for videos, whether a batch has them or not."""
    edits = {SCATTER.format(name): SCATTER.format(name) + RUN for name in ("image", "video") if name not in left_out}
    return f"import torch\n{dummy}{edited('Qwen2_5_VLModel.forward', edits)}"


@pytest.mark.parametrize(("left_out", "dummy", "message"), DEFECTS.values(), ids=list(DEFECTS))
@pytest.mark.slow
def test_a_rank_that_takes_no_part_is_red(
    work: Workspace, left_out: tuple[str, ...], dummy: str, message: str
) -> None:
    result = compare(work, patches(dummy, left_out), preamble=QWEN2_5_VL)
    assert any(message in problem.message for problem in result.errors)
    named = "'Qwen2_5_VLModel.forward'" if left_out else "dummy_forward'"
    assert all(named in problem.message for problem in result.errors if message in problem.message)


@pytest.mark.slow
def test_a_model_that_runs_no_tower_on_one_rank_is_left_alone(work: Workspace) -> None:
    has_group = "torch.distributed.is_initialized()"
    text = patches(DUMMY).replace(has_group, f"{has_group} and torch.distributed.get_world_size() > 1")
    result = compare(work, text, preamble=QWEN2_5_VL)
    assert all("no toy batch reaches" in problem.message for problem in result.errors)


@pytest.mark.slow
def test_ranks_that_all_take_part_are_green(work: Workspace) -> None:
    assert compare(work, patches(DUMMY), preamble=QWEN2_5_VL).errors == ()
