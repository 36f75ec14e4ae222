"""Merging definitions given as texts."""

from __future__ import annotations

import textwrap

from patchgen_core.upgrade.merging.merge import merge_definition
from patchgen_core.upgrade.results import Merged

FORWARD = """
def forward(self, x, position_ids=None, cache_position=None, **kwargs):
    residual = x
    x = self.norm(x)
    x, weights = self.attention(
        hidden_states=x, position_ids=position_ids, cache_position=cache_position, **kwargs
    )
    x = residual + x
    return x, weights
"""


def text(source: str) -> str:
    return textwrap.dedent(source).strip("\n")


def merge(base: str, ours: str, theirs: str) -> Merged:
    return merge_definition(text(base), text(ours), text(theirs))


def changed(source: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in source
        source = source.replace(old, new)
    return source


def assert_clean(merged: Merged, expected: str) -> None:
    assert merged.conflicts == ()
    assert merged.text == text(expected)


def reasons(merged: Merged) -> str:
    return "\n".join(conflict.reason for conflict in merged.conflicts)
