"""Models that ranks share: what is right is green, and a red run tells where ranks part."""

from __future__ import annotations

import pytest

from patchgen_core.checks.parity.request import PatchedCode
from patchgen_core.checks.sharded.explaining import explain_rank_failure
from patchgen_core.checks.sharded.request import ShardedRequest
from patchgen_core.errors import Location
from patchgen_core.models.model_heads import Head
from patchgen_core.project.meshes import find_mesh
from patchgen_core.workers.rank_group import RanksFailed, RankState
from tests.sharded.sharded_runs import VIDEO, compare, places_of, problem_of

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("zoo_on_path")]


def test_a_model_that_ranks_share_learns_what_one_process_learns() -> None:
    result = compare("llama", "fsdp2")
    assert (result.status, result.errors) == ("clean", ())
    assert result.figures["ranks"] == 2
    assert 0 < result.figures["largest part of what is allowed"] <= 1
    assert result.notes == ("LlamaForCausalLM, batches 'padded', 'packed'",)


@pytest.mark.slow
def test_a_rank_may_have_half_of_a_video_in_its_slice_and_no_picture() -> None:
    """Patches of the picture are padded for two ranks, and DeepStack has features of both."""
    result = compare("qwen3_vl", "sp2", batches=(VIDEO,))
    assert (result.status, result.errors) == ("clean", ())


MLP = "        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))\n        return down_proj"
IMPORT = "        import torch.distributed as dist\n"


def test_what_only_one_rank_computes_otherwise_is_told_with_rank_tensor_and_module() -> None:
    skew = "return down_proj * (1.5 if dist.is_initialized() and dist.get_rank() else 1)"
    result = compare("llama", "fsdp2", (MLP, IMPORT + MLP.replace("return down_proj", skew)))
    problem = problem_of(result)
    assert (
        "LlamaForCausalLM on fsdp2 differs from one process: logits of 'packed' on rank 1, relative error" in problem
    )
    assert "The first output that differs is from 'model.layers.0.mlp' (LlamaMLP)" in problem
    assert "right after 'model.layers.0.mlp.down_proj', where both agree, batch 'packed'." in problem
    assert "in 'model.layers.0.mlp' (LlamaMLP): look at the patch of 'LlamaMLP.forward'" in problem
    assert result.errors[0].location in places_of("llama", "LlamaMLP.forward")


@pytest.mark.slow
def test_ranks_that_hang_are_told_with_the_collective_and_the_line_of_each() -> None:
    stuck = (
        "        if dist.is_initialized() and dist.get_rank() == 0 and x.shape[0] == 2:\n            dist.barrier()\n"
    )
    result = compare("llama", "fsdp2", (MLP, IMPORT + stuck + MLP), time_limit=6)
    (problem,) = result.errors
    assert problem.message == "training LlamaForCausalLM on 2 ranks takes over 6 s"
    assert "rank 0 is in barrier, " in problem.excerpt
    assert "in forward" in problem.excerpt
    assert problem.location in places_of("llama", "LlamaMLP.forward")


@pytest.mark.slow
def test_a_rank_that_raises_is_told() -> None:
    raising = "        if dist.is_initialized() and dist.get_rank() == 1:\n            raise ValueError('no more')\n"
    result = compare("llama", "fsdp2", (MLP, IMPORT + raising + MLP))
    (problem,) = result.errors
    assert problem.message == "LlamaForCausalLM cannot be trained on 2 ranks: rank 1 fails: ValueError: no more"
    assert problem.location in places_of("llama", "LlamaMLP.forward")
    assert "The patch of 'LlamaMLP.forward' was running, " in problem.hint
    assert "changed_" in problem.hint


@pytest.mark.slow
def test_a_rank_that_raises_over_what_another_patch_gave_is_told_at_that_one() -> None:
    """The rotations of the whole sequence for the slice of a rank, which the function that rotates cannot take."""
    slicing = "        position_embeddings = slice_position_embeddings(position_embeddings)\n"
    (problem,) = compare("mistral", "sp2", (slicing, "")).errors
    assert "RuntimeError: The size of tensor a (5) must match the size of tensor b (10)" in problem.message
    assert problem.target == "MistralModel.forward"
    assert problem.hint.startswith(
        "The patch of 'MistralModel.forward' gives 'model.layers.0' slices of some tensors and the whole of others."
    )
    assert "The patch of 'apply_rotary_pos_emb' was running, " in problem.hint


@pytest.mark.slow
def test_a_rank_that_raises_after_a_wrong_output_is_told_at_the_patch_that_gave_it() -> None:
    """An MLP of two ranks that gives one token too few, with which the layer around it cannot go on."""
    short = "return down_proj[:, 1:] if dist.is_initialized() else down_proj"
    (problem,) = compare("llama", "sp2", (MLP, IMPORT + MLP.replace("return down_proj", short))).errors
    assert "must match the size of tensor" in problem.message
    assert problem.target == "LlamaMLP.forward"
    assert problem.hint.startswith("The patch of 'LlamaMLP.forward' differs from one process before.")


@pytest.mark.parametrize(
    "error",
    [
        "the expert parameter 'experts.down' has no placement in 'ep'",
        "the pattern 'model.layers.*.down_proj' of 'ep' matches no parameter",
    ],
)
def test_error_about_a_plan_is_told_at_the_patch_that_gives_it(error: str) -> None:
    from transformers import LlamaForCausalLM

    patches = tuple(
        PatchedCode(f"LlamaForCausalLM.{name}", Location("config.py", line))
        for line, name in enumerate(("forward", "get_parallel_plan"), 1)
    )
    place = Location("config.py", 9)
    subject = ShardedRequest("acme", "acme.py", "llama", None, find_mesh("ep2"), place, patches)
    head = Head("LlamaForCausalLM", "causal_lm", LlamaForCausalLM, LlamaForCausalLM)
    failure = RanksFailed(0, f"fails: PatchgenError: {error}", [RankState(0, False)])
    problem = explain_rank_failure(failure, head, subject)
    assert (problem.target, problem.location) == (patches[1].target, patches[1].declared)
