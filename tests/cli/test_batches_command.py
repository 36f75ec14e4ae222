"""`patchgen batches`: what each batch of parity passes, and why it runs."""

from __future__ import annotations

import json

import pytest

from tests.checks.parity_runs import NORM, PREAMBLE
from tests.conftest import Workspace

pytestmark = pytest.mark.torch


@pytest.mark.slow
def test_batches_say_what_they_pass_and_why_they_run(work: Workspace) -> None:
    work.config(NORM, preamble=PREAMBLE)
    done = work.patchgen("batches")
    assert (done.returncode, done.stderr) == (0, "")
    head, *lines = done.stdout.splitlines()
    assert head == "proj.models.toy.toy_gpu_patch_gen_config: LlamaForCausalLM"
    (trainer,) = (line for line in lines if line.startswith("  trainer: "))
    assert trainer.startswith("  trainer: num_items_in_batch, labels shifted by the caller, ")
    assert "shift_labels [2, 6], num_items_in_batch=11" in trainer
    assert trainer.endswith("  (a training step; float32, bfloat16)")
    assert any("(evaluation is varied, because models are evaluated between steps; float32)" in line for line in lines)

    (config,) = json.loads(work.patchgen("batches", "--output-format", "json").stdout)
    rows = {(row["head"], row["batch"]): row for row in config["batches"]}
    row = rows["LlamaForCausalLM", "padded"]
    assert row["about"] == "a row padded on the left above one padded on the right"
    assert row["inputs"].startswith("input_ids [2, 9], attention_mask [2, 9], labels [2, 9]")
    assert (row["reason"], row["dtypes"], row["refused"]) == ("a training step", ["float32", "bfloat16"], "")


def test_a_config_that_makes_nothing_is_an_error(work: Workspace) -> None:
    work.config("@config.override_method('LlamaRMSNorm.foward')\ndef f(self, x):\n    return x\n", preamble=PREAMBLE)
    done = work.patchgen("batches")
    assert done.returncode == 2
    assert "has no method 'foward'" in done.stderr
