"""Monkey patches of a small upstream module, and configs made of them."""

from __future__ import annotations

import importlib.util
import textwrap
import types
from typing import Any

from patchgen_core.api.codegen import CodegenResult, generate_and_write
from patchgen_core.authoring.adopt import AdoptResult, adopt
from patchgen_core.build.selection import Selection
from tests.conftest import UPSTREAM, Workspace

UPSTREAM_TEXT = """
import functools
import logging
from math import sqrt

LIMIT = 3
logger = logging.getLogger(__name__)


def traced(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        return ("traced", function(*args, **kwargs))

    return run


def rotate(x):
    return -x


class Norm:
    def forward(self, x):
        return sqrt(x)


class Special(Norm):
    pass


class Head:
    factor = 1

    @traced
    def forward(self, x, scale=1):
        return Norm().forward(rotate(x)) * LIMIT

    def close(self, x):
        return int(x)
"""
KERNELS = """
import logging
import math

logger = logging.getLogger(__name__)


class FastNorm:
    def forward(self, x):
        return x * 100


def fast_rotate(x):
    return x + 1000


def helper(x):
    return x + 0.5


def head_forward(self, x, scale=1):
    logger.debug("fast")
    return helper(math.floor(x)) * scale
"""


def write(work: Workspace, name: str, text: str) -> None:
    (work.site / name).write_text(textwrap.dedent(text))


def adopted(work: Workspace, patch: str, **options: Any) -> AdoptResult:
    """Adopt a patcher with this body."""
    body = textwrap.indent(textwrap.dedent(patch), "    ")
    head = (
        "import functools\nimport kernels\nfrom acme.models.toy import modeling_toy as toy\n\n\ndef patch(on=True):\n"
    )
    write(work, "patches.py", head + body)
    return adopt(work.project, UPSTREAM, "patches:patch", **options)


def make(work: Workspace, result: AdoptResult) -> CodegenResult:
    [made] = generate_and_write(Selection(work.project, [result.path]))
    return made


def only_finding(result: AdoptResult) -> str:
    [finding] = result.findings
    assert finding.message.split(" = ")[0] in result.text.replace("\n#   ", " ")
    return str(finding)


def generated_module(made: CodegenResult) -> types.ModuleType:
    """The module that an adopted config makes, which keeps the contracts."""
    assert not made.verdict.errors, "\n".join(map(str, made.verdict.errors))
    spec = importlib.util.spec_from_file_location("made", made.artifact.path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
