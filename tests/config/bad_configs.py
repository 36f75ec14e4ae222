"""An upstream module, and what a user reads of a bad config over it."""

from __future__ import annotations

import re

from tests.conftest import Workspace

UPSTREAM = """
from torch import nn

from ...activations import ACT

try:
    from fast import kernel
except ImportError:
    kernel = None

LIMIT = 3


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return ACT(x)

    @property
    def width(self):
        return self.size


@dataclass
class Output:
    loss: float = None


def rotate(x, y):
    return x + y


def use():
    return Norm(1), LIMIT
"""
MODULE = "acme.models.toy.modeling_toy"
HEAD = f'from patchgen import PatchConfig, create_patch_from_external\nconfig = PatchConfig("{MODULE}", "toy.py")\n'
FILE = "toy/toy_gpu_patch_gen_config.py"
IN_TOY = "in toy.py, line"
UNDEFINED = "  Import it with config.add_import, copy it with config.add_helper, or assign it in a post-import block."
UNREADABLE = "  Its definition is not in a Python file, or a decorator hides it."
STILL_USED = "  Patch or exclude what uses it, or bind the name yourself."
NAME_MAP = '  It maps class prefixes, such as {"Qwen3VL": "Qwen3VLMoe"}.'


def expected(text: str) -> str:
    """A message with the config's file; ``@N`` at the start of a line stands for it and line N."""
    return re.sub(r"^@(\d+)", rf"{FILE}:\1:", text, flags=re.MULTILINE)


def assert_told(work: Workspace, config: str, message: str) -> None:
    """A config below ``HEAD``, so that it starts on line 3, is told with this message and no other."""
    work.upstream(UPSTREAM)
    work.config(config + "\n", preamble=HEAD)
    told = "\n".join(line.rstrip() for line in work.errors().split("\n"))
    assert told == expected(message)
