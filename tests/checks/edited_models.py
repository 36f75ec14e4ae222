"""A project that patches Llama, whose checks all run its model, and the states of its parts."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests.build.edited_project import States, set_variable, write_states
from tests.checks.acme_project import CONFIG, KERNELS, SETTINGS, SETUP, SLOTS

PLAN = """
from patchgen_core.parallel_plan import ParallelPlan
from torch.distributed.tensor import Shard


def get_parallel_plan():
    return ParallelPlan(extra_parallel_plan={"ep": {"model.layers.*.mlp.up_proj.weight": Shard(0)}})
"""


def make(folder: Path) -> Mapping[str, States]:
    """Make the project below a folder; the states of each of its parts."""
    work = folder / "work"
    models = work / "acme/models/llama"
    (models / "generated").mkdir(parents=True)
    os.environ.update({"CI": "1", "PATCHGEN_KEEP_CHECKS": "1", "PATCHGEN_SHARED_CACHE": str(folder / "shared")})
    setup = 'setup = "acme.testing:setup"'
    config = CONFIG + SLOTS
    kernels = textwrap.dedent(KERNELS)
    return {
        "settings": write_states(
            work / "pyproject.toml",
            SETTINGS.format(setup=setup, parity=""),
            SETTINGS.format(setup=setup, parity="tolerance = { eager = 2.0 }"),
            SETTINGS.format(setup=setup, parity='leave_out = { "*::trainer" = "nobody trains it so" }'),
        ),
        "config": write_states(
            models / "llama_patch_gen_config.py",
            config,
            config + "\n# a remark\n",
            config.replace("* self.up_proj(x)", "* self.up_proj(x) * 1.5"),
            config.replace("def forward(self, x)", "def forward(self, y, x)"),
            config.replace(
                "self.act_fn(self.gate_proj(x)) * self.up_proj(x)", "self.up_proj(x) * self.act_fn(self.gate_proj(x))"
            ),
        ),
        "kernels": write_states(
            work / "acme/kernels.py",
            kernels,
            kernels.replace("+ mlp.up_proj(x))", "* mlp.up_proj(x))"),
            kernels.replace("(right, wrong, elsewhere)", "(right, elsewhere)"),
            kernels.replace("(right, wrong, elsewhere)", "(right,)"),
        ),
        "set-up": write_states(work / "acme/testing.py", textwrap.dedent(SETUP), "def setup(models):\n    pass\n"),
        "plan": write_states(models / "parallel_plan.py", None, PLAN, PLAN.replace("up_proj", "upp_proj")),
        "mode": [partial(set_variable, "ACME_MODE", value) for value in (None, "fast")],
    }
