"""What a check of a model may change for the next one of its process, and does not."""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from patchgen_core.models.interpreter import device_type
from patchgen_core.models.random_values import reseed


@dataclass(frozen=True)
class _Setting:
    """Something of this process that a model can change; ``put`` sets it to what ``get`` read."""

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], Any]


def _working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed
        return "a folder that is gone"


_SETTINGS = (
    _Setting("torch's default dtype", torch.get_default_dtype, torch.set_default_dtype),
    _Setting("whether torch records gradients", torch.is_grad_enabled, torch.set_grad_enabled),
    _Setting(
        "whether torch must be deterministic",
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    _Setting(
        "torch's precision of matrix products",
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    _Setting("torch's number of threads", torch.get_num_threads, torch.set_num_threads),
    _Setting("torch's default device", torch.get_default_device, lambda _: torch.set_default_device(None)),
    _Setting("the working directory", _working_directory, os.chdir),
)


def list_settings() -> list[tuple[str, Any]]:
    """What the settings of this process are, but for its working directory."""
    return [(setting.name, setting.get()) for setting in _SETTINGS if setting.get is not _working_directory]


@contextmanager
def preserve_process_state() -> Iterator[list[str]]:
    """Run a check as the first one of its process, and put back what it changes.

    It begins with the same random numbers, warning filters, ``sys.path``, working directory and settings of torch as
    every other. What else it changes, such as environment variables and other modules, stays. The list that it yields
    holds, in the end, a line for each setting that the check left at another value.
    """
    changes: list[str] = []
    _reseed_everything()
    before = [setting.get() for setting in _SETTINGS]
    path = list(sys.path)
    try:
        with warnings.catch_warnings():
            yield changes
    finally:
        sys.path[:] = path
        for setting, value in zip(_SETTINGS, before):
            if (now := setting.get()) != value:
                setting.put(value)
                changes.append(f"left {setting.name} at {now}, which was restored")


def _reseed_everything() -> None:
    reseed(device_type())
    random.seed(0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
