"""Monkey patches of a small upstream module."""

from __future__ import annotations

import types
from typing import Any

UPSTREAM = """
LIMIT = 3
TABLE = {"eager": "theirs"}


def rotate(x):
    return -x


class Norm:
    eps = 1e-6

    def forward(self, x):
        return rotate(x)

    @staticmethod
    def scale():
        return 1
"""


def contents(module: types.ModuleType) -> dict[str, Any]:
    """Everything a module and its class hold, by identity."""
    own = {name: value for name, value in vars(module).items() if name != "__builtins__"}
    return {**own, **{f"Norm.{name}": value for name, value in vars(own["Norm"]).items()}}


def patch_all(upstream: types.ModuleType) -> None:
    upstream.rotate = lambda x: x * 10  # type: ignore[attr-defined]
    upstream.Norm.forward = lambda self, x: upstream.rotate(x) + 1  # type: ignore[attr-defined]
    upstream.Norm.scale = staticmethod(lambda: 2)  # type: ignore[attr-defined]
    upstream.Norm.extra = lambda self: "added"  # type: ignore[attr-defined]
    upstream.added = print  # type: ignore[attr-defined]
