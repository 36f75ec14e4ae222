"""A project for the names of the reference documentation."""

from __future__ import annotations

from typing import Any

from patchgen import (
    DiscoveryConfig,
)
from tests.conftest import Workspace

UPSTREAM = """
from ...activations import ACT


class Norm:
    def forward(self, x):
        return dict(first_argument=x, second_argument=x, third_argument=ACT)


def rotate(x):
    return -x
"""
PATCH = """
@config.override_method("Norm.forward", description="Twice as much")
def norm_forward(self, x):
    return dict(first_argument=x * 2, second_argument=x, third_argument=ACT)
"""
MODULE = "proj.models.toy.toy_gpu_patch_gen_config"
GENERATED = "toy/generated/patched_modeling_toy_gpu.py"
RUFF = "[tool.ruff]\nline-length = 40\n"


def discovery(work: Workspace, **settings: Any) -> DiscoveryConfig:
    values = {"search_root": str(work.models), "package_prefix": "proj.models", **settings}
    return DiscoveryConfig(**values)


def command_line_text(work: Workspace, *arguments: str, file: str = GENERATED) -> str:
    done = work.patchgen("--all", *arguments)
    assert done.returncode == 0, done.stderr
    return (work.models / file).read_text()
