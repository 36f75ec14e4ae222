"""Packed sequences in the models with linear attention: parity has no such batch, because upstream refuses it."""

from __future__ import annotations

import importlib

import pytest
import torch

from patchgen_core.models.toy_config import toy_config_for
from patchgen_core.models.toy_models import random_state

LENGTHS = (2, 5, 20, 1)
MODELS = {"qwen3_5": "Qwen3_5ForConditionalGeneration", "qwen3_5_moe": "Qwen3_5MoeForConditionalGeneration"}


@pytest.fixture(scope="module", params=sorted(MODELS))
def model(request: pytest.FixtureRequest, zoo_on_path: None) -> torch.nn.Module:
    name: str = request.param
    generated = importlib.import_module(f"zoo.{name}.generated.patched_modeling_{name}_gpu")
    config = toy_config_for(name)
    config._attn_implementation = config.text_config._attn_implementation = "eager"
    made = getattr(generated, MODELS[name])(config).train()
    made.load_state_dict(random_state(made), strict=False)
    return made


def packed_row() -> dict[str, torch.Tensor]:
    ids = torch.randint(10, 250, (1, sum(LENGTHS)), generator=torch.Generator().manual_seed(0))
    positions = torch.cat([torch.arange(length) for length in LENGTHS])
    return {"input_ids": ids, "position_ids": positions.expand(4, 1, -1).contiguous()}


def limits() -> dict[str, torch.Tensor]:
    ends = torch.tensor([0, *LENGTHS]).cumsum(0).int()
    return {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends}


def test_packed_sequences_equal_each_alone(model: torch.nn.Module) -> None:
    row = packed_row()
    packed = model(**row, **limits(), use_cache=False).logits
    parts = row["input_ids"].split(LENGTHS, dim=1)
    alone = torch.cat([model(input_ids=part, use_cache=False).logits for part in parts], dim=1)
    torch.testing.assert_close(packed, alone, rtol=0, atol=1e-5 * float(alone.detach().abs().max()))
    gradients = []
    for logits in (packed, alone):
        model.zero_grad()
        logits.sin().sum().backward()
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        scale = float(gradients[1][name].abs().max())
        torch.testing.assert_close(gradient, gradients[1][name], rtol=0, atol=1e-4 * scale, msg=name)


def test_without_the_limits_a_sequence_reaches_the_next(model: torch.nn.Module) -> None:
    """What the patch is for."""
    row = packed_row()
    with torch.no_grad():
        apart, mixed = (model(**row, **more, use_cache=False).logits for more in (limits(), {}))
    assert float((apart - mixed).abs().max()) > 0.01


def test_what_cannot_be_kept_apart_is_refused(model: torch.nn.Module) -> None:
    row = packed_row()
    with pytest.raises(ValueError, match="pass it beside seq_idx"):
        model(**row, seq_idx=torch.zeros_like(row["input_ids"]), use_cache=False)
    with pytest.raises(ValueError, match="packed into one row, and there are 2"):
        model(input_ids=row["input_ids"].repeat(2, 1), **limits(), use_cache=False)
