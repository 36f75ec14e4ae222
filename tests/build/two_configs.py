"""Two configs of one folder."""

from __future__ import annotations

import os
from pathlib import Path

from tests.conftest import Workspace

CONFIG = "proj.models.toy.toy_gpu_patch_gen_config"
OTHER_CONFIG = "other/other_patch_gen_config.py"


def others(work: Workspace) -> Path:
    return work.models / "other/generated/patched_modeling_other.py"


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))
