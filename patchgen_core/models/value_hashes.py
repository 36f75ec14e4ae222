"""Hashes that stand for tensors, functions and plain values."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

_HOMES = ("patchgen_core.", "torch.", "transformers.")


class NotDescribedError(Exception):
    """Something is of a kind that no hash can stand for."""


def hash_values(value: Any) -> str:
    """A hash of tensors, functions, plain values and what holds them; NotDescribedError for anything else."""
    hasher = hashlib.sha256()
    for part in _parts(value):
        hasher.update(part)
    return hasher.hexdigest()[:40]


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, Tensor):
        yield f"tensor {value.dtype} {list(value.shape)} {value.device.type} {value.requires_grad};".encode()
        yield _bytes(value)
    elif value is None or isinstance(value, (int, float, str, bytes, torch.dtype)):
        yield f"{type(value).__name__} {value!r};".encode("utf-8", "surrogateescape")
    elif isinstance(value, (list, tuple)):
        yield f"{type(value).__name__} {len(value)};".encode()
        for item in value:
            yield from _parts(item)
    elif isinstance(value, Mapping):
        yield f"{type(value).__qualname__} {len(value)};".encode()
        for key, item in value.items():
            yield from _parts(key)
            yield from _parts(item)
    elif is_dataclass(value) and not isinstance(value, type) and _is_known(type(value)):
        yield f"{type(value).__module__}.{type(value).__qualname__};".encode()
        yield from _parts({field.name: getattr(value, field.name) for field in fields(value)})
    elif isinstance(value, functools.partial):
        yield from _parts(("partial", value.func, value.args, value.keywords))
    elif isinstance(value, FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, type) and _is_known(value):
        yield f"{value.__module__}.{value.__qualname__};".encode()
    else:
        raise NotDescribedError(type(value).__qualname__)


def _parts_of_function(function: FunctionType) -> Iterator[bytes]:
    if not _is_known(function) and function.__module__ != "contextlib":
        raise NotDescribedError(function.__qualname__)
    code = function.__code__
    yield f"function {function.__module__}.{function.__qualname__} {code.co_filename}:{code.co_firstlineno};".encode()
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    yield from _parts((function.__defaults__, function.__kwdefaults__, cells))


def _is_known(value: Any) -> bool:
    """Whether the state of the machine stands for the code of a class or function."""
    return str(value.__module__).startswith(_HOMES)


def _bytes(value: Tensor) -> bytes:
    flat = value.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
