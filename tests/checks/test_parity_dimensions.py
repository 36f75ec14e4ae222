"""What parity varies beside training steps: defects that show nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.acme_project import Acme
from tests.checks.parity_runs import compare
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

ONLY_IN_EVALUATION = """
@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    scale = 1.0 if self.training else 2.0
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x)) * scale
"""


@pytest.mark.slow
def test_a_model_that_computes_something_else_in_evaluation_is_red(work: Workspace) -> None:
    result = compare(work, ONLY_IN_EVALUATION)
    (problem,) = result.errors
    assert "look at the patch of 'LlamaMLP.forward'" in problem.message
    assert "Batch 'padded, evaluated'" in problem.hint
    assert "LlamaForCausalLM: evaluation is varied, because models are evaluated between steps" in result.notes


def test_the_level_quick_varies_nothing(work: Workspace) -> None:
    result = compare(work, ONLY_IN_EVALUATION, level="quick")
    assert result.errors == ()
    assert not any("varied" in note for note in result.notes)


@pytest.mark.slow
def test_the_level_of_a_run_comes_before_that_of_the_project(tmp_path: Path) -> None:
    acme = Acme(tmp_path)
    acme.settle('level = "quick"')
    acme.config(ONLY_IN_EVALUATION)
    assert [result.status for result in acme.gate("parity").values()] == ["clean"]
    assert [result.status for result in acme.gate("parity", level="standard").values()] == ["failed"]


LINE_OF_EVALUATION = """
@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    if not self.training:
        x = x.contiguous()
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""


def test_what_training_steps_alone_do_not_reach_is_a_warning_where_nothing_else_is_run(work: Workspace) -> None:
    result = compare(work, LINE_OF_EVALUATION, level="quick")
    assert result.errors == ()
    assert [warning.code for warning in result.warnings] == ["PG302"]
    result = compare(work, LINE_OF_EVALUATION)
    assert (result.errors, result.warnings) == ((), ())


FUSED_EVERYWHERE = """
from patchgen import create_patch_from_external

config.patches.append(
    create_patch_from_external("LlamaRMSNorm", "liger_kernel.transformers.rms_norm", "LigerRMSNorm", "Fused RMSNorm")
)
config.tolerate(4, "Liger adds up in another order")
"""


@pytest.mark.slow
def test_models_that_call_kernels_themselves_are_varied_as_well(tmp_path: Path) -> None:
    """Triton interprets these kernels here, and no other implementation runs what is around them."""
    acme = Acme(tmp_path)
    acme.config(FUSED_EVERYWHERE)
    (result,) = acme.gate("parity").values()
    assert (result.status, result.errors) == ("clean", ())
    acme.config(FUSED_EVERYWHERE + ONLY_IN_EVALUATION)
    (result,) = acme.gate("parity").values()
    assert "look at the patch of 'LlamaMLP.forward'" in result.errors[0].message
    assert "evaluated" in result.errors[0].hint
