"""Models with linear attention keep their sequences whole: split ones are an error, not a wrong number."""

from __future__ import annotations

import importlib

import pytest
import torch

from patchgen_core.errors import PatchgenError
from patchgen_core.models.toy_config import make_toy_config
from patchgen_core.runtime.parallel.unsplit_attention import check_attention

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("zoo_on_path")]


@pytest.mark.parametrize(("model", "prefix"), [("qwen3_5", "Qwen3_5"), ("qwen3_5_moe", "Qwen3_5Moe")])
@pytest.mark.parametrize("head", ["ForCausalLM", "ForConditionalGeneration"])
def test_linear_attention_over_slices_is_refused(model: str, prefix: str, head: str) -> None:
    module = importlib.import_module(f"zoo.{model}.generated.patched_modeling_{model}_gpu")
    model_class = getattr(module, f"{prefix}{head}")
    with torch.device("meta"):
        built = model_class(make_toy_config(model_class.config_class))
    message = rf"{prefix}{head} cannot split sequences: {prefix}GatedDeltaNet \(.*\) exchanges nothing between ranks"
    with pytest.raises(PatchgenError, match=message):
        check_attention(built)
