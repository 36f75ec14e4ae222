"""Small modules with slots, as the generator would write them, and kernels to bind to these slots."""

from __future__ import annotations

import importlib
import itertools
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from patchgen_core.errors import PatchgenError
from patchgen_core.ops import KERNEL_REGISTRY, HardwareRequirement, KernelSpec

HEADER = """
import functools

import torch
from torch import nn

from patchgen_core.ops import OpSlot

scale = OpSlot("scale")
"""
LAYER = """
class Layer(nn.Module):
    def forward(self, x):
        if scale.has_kernel:
            return scale(x)
        return x * 1
"""
HELPER = """
def helper(x):
    return scale(x) if scale.has_kernel else x * 1
"""
NET = (
    LAYER
    + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3, bias=False)
        nn.init.eye_(self.linear.weight)
        self.layers = nn.ModuleList([Layer(), Layer()])

    def forward(self, x):
        x = self.linear(x)
        for layer in self.layers:
            x = layer(x)
        return x
"""
)
ONE, TWO, THREE = ({"scale_implementation": name} for name in ("eager", "double", "triple"))
"""What the layers multiply by with these configs."""

_counter = itertools.count()


def refused(call: Callable[..., Any], *arguments: Any, **keywords: Any) -> str:
    """The text of the error that a call is refused with."""
    with pytest.raises(PatchgenError) as caught:
        call(*arguments, **keywords)
    return str(caught.value)


def double(x):
    return x * 2


def triple(x):
    return x * 3


@contextmanager
def kernels() -> Iterator[None]:
    """``double``, ``triple`` and others for ``scale``, in the global registry, which is put back after."""
    KERNEL_REGISTRY.specs()
    before = {name: dict(getattr(KERNEL_REGISTRY, name)) for name in ("_specs", "_places", "_made")}
    KERNEL_REGISTRY.register(KernelSpec("double", "scale", "standard", lambda: double))
    KERNEL_REGISTRY.register(KernelSpec("triple", "scale", "standard", lambda: triple))
    KERNEL_REGISTRY.register(KernelSpec("npu", "scale", "standard", lambda: double, HardwareRequirement("npu")))
    KERNEL_REGISTRY.register(KernelSpec("less", "shift", "standard", lambda: lambda x: x - 1))
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(KERNEL_REGISTRY, name, value)


def write_module(folder: Path, text: str, header: str = HEADER, name: str = "") -> ModuleType:
    """Import a new module with a slot ``scale``; ``folder`` must be on the path."""
    name = name or f"slotted_{next(_counter)}"
    (folder / f"{name}.py").write_text(textwrap.dedent(header) + textwrap.dedent(text), encoding="utf-8")
    importlib.invalidate_caches()
    return importlib.import_module(name)


@contextmanager
def no_warnings() -> Iterator[None]:
    """Without the warnings that something is said to give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def factor(model: torch.nn.Module) -> float:
    """What a model multiplies by, which must be the same forward and backward."""
    x = torch.ones(2, 3, requires_grad=True)
    y = model(x)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y)
    return float(x.grad[0, 0])
