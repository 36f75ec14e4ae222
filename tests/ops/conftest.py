"""What several tests of the run-time rooms need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests.ops.modules import NET, kernels, write_module


@pytest.fixture
def slot_kernels() -> Iterator[None]:
    """Kernels for the slots of the written modules; afterwards the registry is what it was."""
    with kernels():
        yield


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Writes a module like a generated one and imports it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda text, **rest: write_module(tmp_path, text, **rest)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module with ``Net``, whose two layers read the slot."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return write_module(tmp_path, NET)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
