"""Models start with upstream's values, and where transformers leaves some out the finding has the patch for it."""

from __future__ import annotations

import textwrap

import pytest

from patchgen_core.checks.parity_codes import UNINITIALIZED
from patchgen_core.errors import Problem
from tests.checks.parity_runs import compare
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

GPT2 = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.gpt2.modeling_gpt2", "patched_modeling_toy_gpu.py")
config.exclude_from_output("GPT2DoubleHeadsModel", "GPT2ForSequenceClassification", "GPT2ForTokenClassification")
config.exclude_from_output("GPT2ForQuestionAnswering")
"""
OTHER_STANDARD_DEVIATION = """
@config.override_method("GPT2PreTrainedModel._init_weights")
def init_weights(self, module):
    super()._init_weights(module)
    if isinstance(module, (Conv1D, nn.Linear)):
        init.normal_(module.weight, mean=0.0, std=1.0)
"""


def finding(work: Workspace, text: str) -> Problem:
    [problem] = compare(work, text, preamble=GPT2).errors
    assert problem.code == UNINITIALIZED
    return problem


def test_what_transformers_skips_is_told_with_the_patch_that_mends_it(work: Workspace) -> None:
    problem = finding(work, "")
    assert "h.0.mlp.c_proj.weight" in problem.message
    assert problem.message.endswith("as upstream's does: transformers skips them outside its package")
    told, _, patch = problem.hint.partition("\n")
    assert "GPT2PreTrainedModel._init_weights gives values to the children of some" in told
    assert compare(work, textwrap.dedent(patch), preamble=GPT2).errors == ()


def test_what_a_patch_initializes_otherwise_is_not_laid_to_transformers(work: Workspace) -> None:
    problem = finding(work, OTHER_STANDARD_DEVIATION)
    assert problem.message.endswith("look at the patch of 'GPT2PreTrainedModel._init_weights'")
    assert "config.override_method" not in problem.hint
