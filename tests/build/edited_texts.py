"""The files of the project that random edits are made to."""

from __future__ import annotations

UPSTREAM = """
import math

import torch


class Norm:
    def __init__(self, size):
        self.size = size

    def forward(self, x):
        return x


class Head:
    def forward(self, x):
        return x + math.pi


def rotate(x):
    return -x
"""
MODULE = "acme.models.toy.modeling_toy"
HEAD = f'from patchgen import PatchConfig, create_patch_from_external\n\nMODULE = "{MODULE}"\n'
BASE = f"""
{HEAD}
config = PatchConfig(MODULE, "patched_modeling_toy_gpu.py", description="the base")
config.add_import("fastops", names=["mul"])
config.add_import("torch_kit.fused")
config.add_import("zeta", alias="z")


@config.override_method("Norm.forward", description="scaled")
def norm_forward(self, x):
    scale = lambda first, second=1: first.a_long_attribute.another_long_attribute(first, second).attribute(second, 1)
    return mul(scale(x), 2) + z.one + torch_kit.fused.one
"""
HEIR = f"""
{HEAD}
from proj.models.toy.toy_gpu_patch_gen_config import norm_forward

config = PatchConfig(MODULE, "patched_modeling_toy_npu.py")
config.override_method("Norm.forward", replacement=norm_forward)
config.add_import("fastops", names=["mul"])
config.add_import("torch_kit.fused")
config.add_import("zeta", alias="z")
"""
OPTIONAL = f"""
{HEAD}
try:
    from proj.models.toy import extra
except ImportError:
    extra = None
try:
    import passing
except ImportError:
    passing = None
try:
    from optional_kit.norms import scale
except ImportError:
    scale = None
from proj import helpers

config = PatchConfig(MODULE, "patched_modeling_optional_gpu.py")
if extra is not None:
    config.description += f" extra {{extra.VALUE}}"
if passing is not None:
    config.description += " passing"
if scale is not None:
    config.description += " scale"


@config.replace_function("rotate")
def rotate(x):
    return helpers.turn(x)


config.add_import("proj", names=["helpers"])
"""
ODD = (
    HEAD
    + """
import os
import time

config = PatchConfig(MODULE, "patched_modeling_odd_gpu.py")
{looks}

@config.replace_function("rotate")
def rotate(x):
    time.sleep(0)
    return os.fspath(x)


config.add_import("os")
config.add_import("time")
"""
)
EXTERNAL = f"""
{HEAD}
from acme.models.toy.modeling_toy import Head
from proj.models import dsl

config = dsl.make("patched_modeling_external_gpu.py")
config.patches.append(create_patch_from_external("Head", "kernels.heads", "FusedHead"))


class Wide(Head):
    def forward(self, x):
        return super().forward(x) * 2


config.add_helper_after("Head", Wide)
"""
DSL = f"""
{HEAD}
SIZE = 1


def make(target):
    config = PatchConfig(MODULE, target)
    config.add_post_import_block(f"SIZE = {{SIZE}}")
    return config
"""
LOOKS = (
    "",
    'config.description = os.environ.get("ODD", "none")',
    'config.description = open("work_notes.txt").read()',
    'config.description = __file__.rpartition("/")[2]',
    'config.description = str(time.time())[:0] + "timed"',
)
