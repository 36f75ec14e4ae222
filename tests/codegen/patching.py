"""An upstream module to patch."""

from __future__ import annotations

import re

UPSTREAM = '''
from torch import nn

from ...activations import ACT


class Norm(nn.Module):
    """A norm."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x  # upstream


def rotate(x, y):
    return x + y


class Head(Norm): ...
'''


def unmarked(text: str) -> str:
    """A generated text without the markers of its patches."""
    return re.sub(r"(?m)^ *# ={70}\n(?: *# .*\n)+? *# ={70}\n", "", text)
