"""Runs of two models compared: with the truth of float64, and with what eager's own noise allows."""

from __future__ import annotations

import pytest
import torch

from patchgen_core.models.model_run import Run
from patchgen_core.models.run_comparison import compare_runs
from patchgen_core.models.toy_config import make_toy_config
from patchgen_core.models.toy_models import build_model, in_float64, random_state

pytestmark = pytest.mark.torch


def test_the_truth_is_computed_in_float64_throughout():
    scores = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with in_float64():
        narrow = torch.nn.functional.softmax(scores, dim=-1, dtype=torch.float32)
        assert scores.float().dtype is torch.float64
        assert scores.to(torch.float32).dtype is torch.float64
    assert torch.equal(narrow, torch.nn.functional.softmax(scores, dim=-1))


def test_random_parameters_are_the_same_everywhere_and_in_every_dtype():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = make_toy_config(LlamaConfig)
    states = [random_state(build_model(LlamaForCausalLM, config, torch.float32)) for _ in range(2)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert all(torch.equal(value, value.bfloat16().float()) for value in states[0].values())
    assert states[0]["model.norm.weight"].std() > 0.1


def test_what_a_mask_fills_in_is_the_same_in_every_dtype():
    def run(dtype: torch.dtype, more: float) -> Run:
        filled = torch.full((3,), torch.finfo(dtype).min, dtype=dtype)
        return Run({"logits": torch.cat([filled, torch.tensor([1 + more, 2], dtype=dtype)])})

    eager, truth = run(torch.float32, 1e-6), run(torch.float64, 0)
    assert compare_runs(run(torch.float32, 2e-6), eager, truth, 4.0)[0].is_right
    assert not compare_runs(run(torch.float32, 1e-3), eager, truth, 4.0)[0].is_right


def test_a_tensor_that_is_zero_allows_no_more_than_eagers_own_noise():
    def run(value: float) -> Run:
        return Run({"gradient of bias": torch.tensor([value, 0.0])})

    truth = run(0.0)
    assert compare_runs(run(3e-9), run(1e-9), truth, 4.0)[0].is_right
    assert not compare_runs(run(1e-8), run(1e-9), truth, 4.0)[0].is_right
    assert not compare_runs(run(1e-9), run(0.0), truth, 4.0)[0].is_right


def test_an_infinity_of_eagers_own_allows_nothing_else():
    def run(*values: float) -> Run:
        return Run({"logits": torch.tensor(values)})

    eager, truth = run(float("inf"), 1.0), run(1.0, 1.0)
    assert compare_runs(run(float("inf"), 1.0), eager, truth, 4.0)[0].is_right
    assert not compare_runs(run(5.0, 1.0), eager, truth, 4.0)[0].is_right
    assert not compare_runs(run(float("inf"), 2.0), eager, truth, 4.0)[0].is_right


@pytest.mark.parametrize(
    "ours",
    [
        pytest.param(None, id="none"),
        pytest.param(torch.ones(2, 1), id="shape"),
        pytest.param(torch.ones(2, dtype=torch.bfloat16), id="dtype"),
        pytest.param(torch.tensor([1.0, float("nan")]), id="not a number"),
    ],
)
@pytest.mark.parametrize("multiple", [0.0, 4.0])
def test_a_tensor_of_another_kind_differs(ours, multiple):
    eager = Run({"logits": torch.ones(2)})
    assert not compare_runs(Run({"logits": ours}), eager, eager, multiple)[0].is_right
    assert not compare_runs(Run({}), eager, eager, multiple)[0].is_right
