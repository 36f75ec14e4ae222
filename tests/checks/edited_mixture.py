"""A small project for which every check has an item, with experts, plan, converter and kernel; its parts' states."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from patchgen_core.checks.fork_server import make_fork_server
from patchgen_core.checks.gate import Item
from tests.build.edited_project import States, set_variable, write_states

SETTINGS = """
[tool.patchgen]
search_root = "acme/models"
package_prefix = "acme.models"
kernels = ["acme.kernels"]
{more}

[tool.patchgen.parity]
dtypes = ["float32"]
batches = ["acme.batches:batches"]
{parity}

[tool.patchgen.sharded]
meshes = ["ep2"]
{sharded}
"""
CONFIG = """
from patchgen import PatchConfig

config = PatchConfig(
    "transformers.models.mixtral.modeling_mixtral",
    "patched_modeling_mixtral.py",
    toy_config={"num_hidden_layers": 1, "hidden_size": 16, "vocab_size": 160},
)
config.exclude_from_output(
    "MixtralForSequenceClassification", "MixtralForTokenClassification", "MixtralForQuestionAnswering"
)
config.drop_decorators("MixtralExperts", "use_experts_implementation")
config.add_import("acme.sums", names=["weigh"])


@config.override_method("MixtralRMSNorm.forward")
def norm_forward(self, hidden_states):
    input_dtype = hidden_states.dtype
    hidden_states = hidden_states.to(torch.float32)
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    return weigh(self.weight, (hidden_states * torch.rsqrt(variance + self.variance_epsilon)).to(input_dtype))
"""
SUMS = "from acme.factors import FACTOR\n\n\ndef weigh(weight, x):\n    return weight * x * FACTOR\n"
KERNELS = """
import torch

from acme.factors import FACTOR
from patchgen_core.ops import KERNEL_REGISTRY, KernelSpec


def make_rms_norm():
    def rms_norm(hidden_states, weight, eps):
        return torch.nn.functional.rms_norm(hidden_states, weight.shape, weight, eps) * FACTOR

    return rms_norm


KERNEL_REGISTRY.register(
    KernelSpec("acme", "rms_norm", "standard", make_rms_norm, None, "torch's own RMSNorm")
)
"""
PLAN = """
from patchgen_core.parallel_plan import ParallelPlan
from torch.distributed.tensor import Shard


def get_parallel_plan():
    names = ("gate_up_proj", "down_proj")
    return ParallelPlan(
        extra_parallel_plan={"ep": {f"model.layers.*.mlp.experts.{name}": Shard(0) for name in names}}
    )
"""
CONVERTER = """
from patchgen_core.checkpoint import create_per_expert_converter


def create_mixtral_checkpoint_tensor_converter(model):
    return create_per_expert_converter(model)
"""
KERNEL_ITEM = "kernel[rms_norm-standard-acme]"
CHANCES = {"parity": 0.35, "sharded": 0.1, "converter": 0.35, "plan": 0.3, "kernel": 0.5, "import": 0.5}
"""How often an item of a check that runs something is asked for; the others always are."""


def make(folder: Path) -> Mapping[str, States]:
    """Make the project below a folder, and a process that others are forked from; the states of each of its parts."""
    work = folder / "work"
    models = work / "acme/models/mixtral"
    (models / "generated").mkdir(parents=True)
    os.environ.update({"CI": "1", "PATCHGEN_KEEP_CHECKS": "1", "PATCHGEN_SHARED_CACHE": str(folder / "shared")})
    make_fork_server().start()
    return {**_texts(work, models), **_modules(work), **_beside(models), **_surroundings(folder)}


def _texts(work: Path, models: Path) -> dict[str, States]:
    def text(more: str = "", parity: str = "", sharded: str = "") -> str:
        return SETTINGS.format(more=more, parity=parity, sharded=sharded)

    generated = models / "generated/patched_modeling_mixtral.py"
    return {
        "settings": write_states(
            work / "pyproject.toml",
            text(),
            text(parity="tolerance = { eager = 0.1 }"),
            text(parity='leave_out = { "*::trainer" = "nobody trains it so" }'),
            text(sharded="tolerance = 0.0001"),
            text('ignore = ["PG214"]'),
        ),
        "config": write_states(
            models / "mixtral_patch_gen_config.py",
            CONFIG,
            CONFIG + "\n# a remark\n",
            CONFIG + "\nimport os\nconfig.description = os.environ.get('COLUMNS', '')\n",
            CONFIG.replace("self.variance_epsilon", "1e-3"),
            CONFIG.replace("pow(2)", "square()"),
            CONFIG.replace('"num_hidden_layers": 1', '"num_hidden_layers": 2'),
            CONFIG.replace("def norm_forward(self, hidden_states)", "def norm_forward(self, x, hidden_states)"),
        ),
        "module": [
            lambda: None,
            partial(_replace, generated, "rsqrt(variance", "rsqrt(2 * variance"),
            partial(generated.unlink, missing_ok=True),
        ],
    }


def _modules(work: Path) -> dict[str, States]:
    return {
        "sums": write_states(
            work / "acme/sums.py",
            SUMS,
            SUMS.replace("weight * x * FACTOR", "x * weight"),
            SUMS.replace("* FACTOR", "* FACTOR * 1.01"),
            SUMS.replace("    return", "    open(__file__).close()\n    return"),
        ),
        "factors": write_states(
            work / "acme/factors.py",
            "FACTOR = 1\n",
            "FACTOR = 1.0\n",
            "FACTOR = 1.02\n",
            'import os\n\nFACTOR = 1 + (os.environ.get("COLUMNS") == "9") / 50\n',
            "from acme.one import FACTOR\n",
        ),
        "one": write_states(work / "acme/one.py", "FACTOR = 1\n", "FACTOR = 1.03\n", None),
        "kernels": write_states(
            work / "acme/kernels.py",
            KERNELS,
            KERNELS.replace("weight, eps)", "weight, 2 * eps + 0.1)"),
            KERNELS.replace(", weight, eps", ", weight, eps=eps"),
        ),
        "batches": write_states(
            work / "acme/batches.py",
            "def batches(model):\n    return []\n",
            "def batches(model):\n    raise ValueError\n",
            "from acme.one import FACTOR\n\n\ndef batches(model):\n    return [] if FACTOR == 1 else 1 / 0\n",
        ),
    }


def _beside(models: Path) -> dict[str, States]:
    return {
        "plan": write_states(
            models / "parallel_plan.py", PLAN, PLAN.replace('"down_proj"', '"up_proj"'), PLAN + "\n# a remark\n", None
        ),
        "converter": write_states(
            models / "checkpoint_tensor_converter.py",
            CONVERTER,
            CONVERTER.replace("(model):", "(model, more):"),
            CONVERTER + "\n# a remark\n",
            None,
        ),
        "data": write_states(models / "sizes.json", None, "{}"),
    }


def _surroundings(folder: Path) -> dict[str, States]:
    site = folder / "site"
    site.mkdir()
    return {
        "columns": [partial(set_variable, "COLUMNS", value) for value in ("100", "9")],
        "build": [partial(set_variable, "BUILD_NUMBER", value) for value in (None, "1", "2")],
        "installed": write_states(site / "acme_fast.py", None, "VALUE = 2\n", "VALUE = 3\n"),
    }


def _replace(path: Path, old: str, new: str) -> None:
    if path.is_file():
        path.write_text(path.read_text().replace(old, new))


def choose(chosen: random.Random) -> Callable[[Item], bool]:
    """Whether an item is asked for: a few of those that run something, and of kernels the project's own."""
    checks = {name for name, chance in CHANCES.items() if chosen.random() < chance}

    def is_chosen(item: Item) -> bool:
        if item.check.name == "kernel" and item.name not in (KERNEL_ITEM, "kernel"):
            return False
        return item.check.name in checks or item.check.name not in CHANCES

    return is_chosen
