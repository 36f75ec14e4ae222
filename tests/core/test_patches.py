"""What patches do to upstream's text."""

from __future__ import annotations

import pytest

from tests.conftest import Workspace

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


@pytest.fixture(autouse=True)
def _upstream(work: Workspace) -> None:
    work.upstream(UPSTREAM)


def test_no_patch_is_upstream_with_absolute_imports(work: Workspace) -> None:
    work.config("")
    assert work.raw() == UPSTREAM.replace("...activations", "acme.activations")


def test_replaced_class_takes_the_targets_name_everywhere(work: Workspace) -> None:
    work.config(
        '''
        # Why it is fast.
        @config.replace_class("Norm", description="Faster")
        class FastNorm:
            """Stands for FastNorm."""

            def forward(self, x):
                return super(FastNorm, self).forward(x)


        @config.replace_function("rotate")
        def fast_rotate(x, y):
            return FastNorm(x)
        '''
    )
    text = work.raw()
    assert "# [PATCHED CLASS] Norm\n# Reason: Faster\n" in text
    assert '# Why it is fast.\nclass Norm:\n    """Stands for FastNorm."""\n' in text
    assert "super(Norm, self).forward(x)" in text
    assert "def rotate(x, y):\n    return Norm(x)\n" in text


def test_added_method_opens_a_one_line_class(work: Workspace) -> None:
    work.config(
        """
        @config.override_method("Head.forward")
        def head_forward(self, x):
            return x * 2
        """
    )
    text = work.raw()
    assert "# Methods added: forward\n" in text
    assert "class Head(Norm):\n    def forward(self, x):\n        return x * 2\n" in text
