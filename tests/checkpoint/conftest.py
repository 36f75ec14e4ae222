"""What several files of tests use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkpoint.checkpoints import (
    hub_checkpoint,
)
from tests.checkpoint.streams import qwen3_moe


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A checkpoint of qwen3_moe with two layers of experts, as Hugging Face saves it."""
    return hub_checkpoint(qwen3_moe(), tmp_path / "hub", mlp_only_layers=[])
