"""Models and checkpoints that the tests of the run-time converters share."""

from __future__ import annotations

import atexit
import importlib.util
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import PreTrainedModel

from patchgen_core.api.codegen import run_codegen
from patchgen_core.models.toy_config import make_toy_config
from patchgen_core.project.table import load_project

PYPROJECT = '[tool.patchgen]\nsearch_root = "models"\npackage_prefix = "models"\n'
CONFIG = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.{0}.modeling_{0}", "patched_modeling_{0}.py")
"""


@cache
def generated(family: str) -> ModuleType:
    """The generated module of a family of transformers, ``qwen3_moe``."""
    folder = tempfile.TemporaryDirectory(prefix="patchgen-test-")
    atexit.register(folder.cleanup)
    root = Path(folder.name)
    config = root / "models" / family / f"{family}_patch_gen_config.py"
    config.parent.mkdir(parents=True)
    (root / "pyproject.toml").write_text(PYPROJECT)
    config.write_text(CONFIG.format(family))
    [result] = run_codegen(str(config), project=load_project(root))
    name = f"generated_for_tests_{family}"
    spec = importlib.util.spec_from_file_location(name, result.artifact.path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def upstream_of(cls: type[PreTrainedModel]) -> type[PreTrainedModel]:
    """The class of transformers that a generated class was made from."""
    home = cls.config_class.__module__.replace(".configuration_", ".modeling_")
    found: type[PreTrainedModel] = getattr(importlib.import_module(home), cls.__name__)
    return found


def toy(cls: type[PreTrainedModel], seed: int = 0, **overrides: Any) -> Any:
    """A model of a toy configuration with random values everywhere."""
    made: Any = make_toy_config(cls.config_class)  # type: ignore[arg-type]
    model: Any = cls(type(made).from_dict({**made.to_dict(), **overrides}))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
    return model


def blank(cls: type[PreTrainedModel], **overrides: Any) -> Any:
    """A model of the same toy configuration in which everything is NaN."""
    model = toy(cls, **overrides)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.fill_(float("nan"))
    return model


def hub_checkpoint(cls: type[PreTrainedModel], folder: Path, shards: int = 4, **overrides: Any) -> Path:
    """What Hugging Face saves of ``toy(cls)``, in several shards; only upstream's class saves as the hub has it."""
    model = toy(upstream_of(cls), **overrides)
    size = sum(tensor.nbytes for tensor in model.state_dict().values())
    model.save_pretrained(folder, max_shard_size=size // shards)
    return folder


def write(tensors: Mapping[str, torch.Tensor], file: Path) -> Path:
    """One safetensors file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, file)
    return file


def unequal(one: Any, other: Any) -> list[str]:
    """The names of tensors that differ between two models, bit for bit."""
    left, right = one.state_dict(), other.state_dict()
    assert left.keys() == right.keys()
    return [name for name in left if not torch.equal(left[name], right[name])]
