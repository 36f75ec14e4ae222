"""An upstream module to edit."""

from __future__ import annotations

import ast

from patchgen_core.syntax.source import parse_source
from tests.codegen.patching import unmarked
from tests.conftest import Workspace

UPSTREAM = '''
import torch
from torch import nn


class Layer(nn.Module):
    """A layer."""

    _no_split_modules = ["Inner"]
    size = 1

    def __init__(self, config):
        super().__init__()
        self.config = config

    @torch.no_grad()
    def forward(self, x, mask=None, **kwargs):
        """What it does.

        In several lines.
        """
        # kept above
        residual = x
        x = self.norm(x)
        # of attention
        x, weights = self.attn(
            x,  # what is attended to
            mask=mask,
            cache=None,
            **kwargs,
        )

        x = residual + x
        if mask is None:
            text = """
  as it is
"""
            x = x * self.scale(text)
        return x


def rotate(q, k):
    from .parts import turn

    return turn(q), turn(k)


class Empty(Layer): ...
'''


def edited(work: Workspace, config: str, owner: str = "Layer.forward") -> str:
    """The text of one class, method or function, from its ``def`` on, that a config makes of ``UPSTREAM``."""
    work.upstream(UPSTREAM)
    work.config(config)
    source = parse_source(work.models, work.raw())
    node = dict(source.definitions)[owner]
    first = source.first_line(node) if isinstance(node, ast.ClassDef) else node.lineno
    return unmarked("\n".join(source.lines[first - 1 : source.last_line(node)]) + "\n")
