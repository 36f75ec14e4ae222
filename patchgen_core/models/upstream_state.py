"""What upstream's code is in this process: which functions, classes and settings its models would use now.

Code of a project may put something of its own in the place of functions of transformers and torch. Then upstream's
models compute something else than those of a process in which nothing did.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterator, Mapping
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any

import torch

from patchgen_core.files import text_digest
from patchgen_core.models.environment import LOOPBACK
from patchgen_core.models.process_state import list_settings
from patchgen_core.workers.variables import HARMLESS

PACKAGE = "transformers"
_TORCH = ("torch", "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.autograd")
_TORCH_FOLDER = os.path.join(os.path.dirname(torch.__file__), "")
_CLASSES = (torch.Tensor, torch.nn.Module)
_PLAIN = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_TABLES = ("_global_mapping", "_local_mapping")
"""Of transformers' registries of functions by name."""
_MEMORY = re.compile(r"\w+_cache|\w+_cached_value|_CAN_RECORD_REGISTRY|SESSION_ID|smart_apply")
"""What transformers remembers of its models, calls itself by and puts into torch when it first initializes one."""
_DEPTH = 4


def describe_upstream(module: ModuleType) -> str:
    """A hash of what upstream's module and all that it uses of transformers and torch hold, of the environment but for
    what no model reads, and of torch's settings."""
    pattern = f"{HARMLESS.pattern}|{LOOPBACK}"
    lines = [f"{name}={value}" for name, value in sorted(os.environ.items()) if not re.fullmatch(pattern, name)]
    lines += map(repr, list_settings())
    lines += describe_modules(module)
    return text_digest("\n".join(lines))[:40]


def describe_modules(module: ModuleType) -> Iterator[str]:
    """A line for each name in the modules that a module of transformers leads to, and for each function in torch's
    that is none of torch itself, which puts some of its own there when it compiles."""
    waiting, seen = [module.__name__], {module.__name__}
    while waiting:
        name = waiting.pop()
        for key, value in sorted(vars(sys.modules[name]).items()):
            if key.startswith("__") or _MEMORY.fullmatch(key):
                continue
            yield f"{name}.{key} {_describe(value, _DEPTH)}"
            home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if isinstance(home, str) and _is_upstream(home) and home in sys.modules and home not in seen:
                seen.add(home)
                waiting.append(home)
            if isinstance(value, type) and _is_upstream(value.__module__) and value.__module__ == name:
                yield from _members(value)
    layers = [value for value in vars(torch.nn).values() if isinstance(value, type)]
    owners: list[ModuleType | type] = [*(sys.modules[name] for name in _TORCH), *layers, *_CLASSES]
    for owner in owners:
        yield from _foreign_members(owner)


def _foreign_members(owner: ModuleType | type) -> Iterator[str]:
    """A line for each function and class in a module or class of torch's that is none of torch."""
    for key, value in vars(owner).items():
        if isinstance(value, FunctionType):
            is_own = value.__code__.co_filename.startswith((_TORCH_FOLDER, "<"))
        else:
            is_own = not isinstance(value, type) or value.__module__.partition(".")[0] == "torch"
        if not is_own and not _MEMORY.fullmatch(key):
            yield f"{owner.__name__}.{key} {_describe(value, _DEPTH)}"


def _is_upstream(name: str) -> bool:
    return name.startswith(f"{PACKAGE}.")


def _members(cls: type) -> Iterator[str]:
    where = f"{cls.__module__}.{cls.__qualname__}"
    for key, value in sorted(vars(cls).items()):
        is_special = key.startswith("__") and not isinstance(value, FunctionType)
        if not is_special and not _MEMORY.fullmatch(key):
            yield f"{where}.{key} {_describe(value, _DEPTH)}"


def _describe(value: Any, depth: int) -> str:
    """What tells a value from another that would make models compute something else."""
    if not depth:
        return "..."
    inner = functools.partial(_describe, depth=depth - 1)
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, FunctionType):
        code, wrapped = value.__code__, getattr(value, "__wrapped__", None)
        place = f"{value.__module__}.{value.__qualname__} {code.co_filename}:{code.co_firstlineno}"
        return f"{place} of {inner(wrapped)}" if wrapped is not None else place
    if isinstance(value, type):
        return f"class {value.__module__}.{value.__qualname__}"
    if isinstance(value, (staticmethod, classmethod)):
        return inner(value.__func__)
    if isinstance(value, property):
        return f"property {inner(value.fget)} {inner(value.fset)}"
    if isinstance(value, functools.partial):
        return f"partial {inner(value.func)} {inner(value.args)} {inner(value.keywords)}"
    if isinstance(value, (dict, MappingProxyType)):
        return f"{{{', '.join(sorted(f'{inner(k)}: {inner(v)}' for k, v in _items(value)))}}}"
    if isinstance(value, (list, tuple, set, frozenset)):
        parts = list(map(inner, value))
        return f"{type(value).__name__} {sorted(parts) if isinstance(value, (set, frozenset)) else parts}"
    tables = [_vars(owner)[name] for owner in (type(value), value) for name in _TABLES if name in _vars(owner)]
    return f"{type(value).__module__}.{type(value).__qualname__} {list(map(inner, tables)) or ''}"


def _items(value: Mapping[Any, Any]) -> Any:
    return dict.items(value) if isinstance(value, dict) else value.items()  # not those that a lazy mapping would make


def _vars(owner: Any) -> Mapping[str, Any]:
    names: Mapping[str, Any] = getattr(owner, "__dict__", {})
    return names
