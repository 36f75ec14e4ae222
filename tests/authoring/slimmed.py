"""A module of upstream's, and the start of a config that replaces a part of it, for tests of ``patchgen slim``."""

from __future__ import annotations

import re

from tests.conftest import CONFIG, Workspace

UPSTREAM_TEXT = '''
from lib import Extra, add, decorator, gather, kernel, log, mix


class Layer:
    def forward(self, x, mask=None, **kwargs: Extra):
        """Runs it."""
        residual = x
        # The norm of all
        x = self.norm(x)
        x, weights = self.attention(
            x,
            mask=mask,
            scale=self.scale,
            **kwargs,
        )
        if mask is None:
            x = x * 2
            x = x + 1
        else:
            x = x * 3
        for name in self.names:
            x = self.parts[name](x)
        x = residual + x
        return x


@decorator
def rotate(q, k):
    q = q * 2
    k = k * 2
    q = q + 1
    k = k + 1
    return q, k


def turn(q, k):
    q = q * 4
    k = k + 2
    return q, k
'''
BODY = """        residual = x
        x = self.norm(x)
        x, weights = self.attention(
            x,
            mask=mask,
            scale=self.scale,
            **kwargs,
        )
        if mask is None:
            x = x * 2
            x = x + 1
        else:
            x = x * 3
        for name in self.names:
            x = self.parts[name](x)
        x = residual + x
        return x
""".replace("\n    ", "\n").removeprefix("    ")
HEAD = '# Why it is so\n@config.override_method("Layer.forward", description="Faster")\n'


def config_text(work: Workspace) -> str:
    """The config as it is now, without its imports for type checkers."""
    text = (work.models / CONFIG).read_text()
    text = re.sub(r"\nif TYPE_CHECKING:\n(    .*\n|\n(?=    ))+", "", text)
    return re.sub(r"from typing import TYPE_CHECKING\n\n?", "", text)
