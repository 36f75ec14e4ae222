"""Third-party packages and configs to load."""

from __future__ import annotations

import textwrap
from pathlib import Path

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.selection import Selection
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.syntax.source import SourceCache
from tests.conftest import CONFIG, PREAMBLE, Workspace

UPSTREAM = """
from torch import nn

LIMIT = 3


class Norm(nn.Module):
    def forward(self, x):
        return x


def rotate(x, y):
    return x + y


def unused():
    return 1
"""
THIRD = """
FLAG = True
NUMBER = 3
NAME = "unused"
NAMES = ["unused"]
CODE = "EXTRA = 1"
TABLE = {}
__version__ = "1.0"


class Base:
    pass


class Kind:
    pass


def deco(function):
    return function


def for_methods(function):
    return type(function).__mro__[5]


def made(name):
    return for_methods
"""
FOLDER = "proj/models/toy"


def site(work: Workspace, path: str, text: str) -> Path:
    """Write a file beside the upstream packages."""
    file = work.site / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text))
    return file


def load(work: Workspace, text: str, preamble: str = PREAMBLE, full: bool = False) -> LoadedConfig:
    work.config(text, preamble=preamble)
    return work.load(full=full)


def generated(work: Workspace, full: bool, path: str = CONFIG) -> str:
    loader = Loader(work.project, SourceCache(), full=full)
    outcome = make_artifacts(Selection(work.project, [work.models / path]), loader=loader)[0]
    assert outcome.artifact is not None, "\n".join(map(str, outcome.problems))
    return outcome.artifact.text


SIBLING = """
import nowhere


def helper():
    return 1
"""
MAKE = 'PatchConfig("acme.models.toy.modeling_toy", "a.py")'
