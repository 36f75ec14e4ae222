"""Does a model's attention exchange anything between ranks? Where it does not, it must not get slices of sequences.

What tells is code: that of the modules that mix tokens, and of every function that it refers to, a project's own run
time included, down to the collectives of ``torch.distributed``.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from torch import nn

from patchgen_core.errors import PatchgenError

_MIXES_TOKENS = re.compile(r"Attention|Attn|MLA|DeltaNet|Mixer|ShortConv")
_EXCHANGES = ("all_to_all", "all_gather", "send", "isend", "recv", "irecv", "batch_isend_irecv")
_OPAQUE = frozenset({"torch", "transformers", "builtins", *sys.stdlib_module_names})
"""Packages whose functions are not followed: none of them exchanges slices of a sequence by itself."""


def check_attention(model: nn.Module) -> None:
    """See that no module that mixes tokens leaves those of other ranks out.

    Towers are not looked at: they may work on whole pictures on every rank.

    Raises:
        PatchgenError: a module does; its class is named.
    """
    answers: dict[frozenset[Any], bool] = {}
    for module in _find_token_mixers(model):
        code = frozenset((type(part), vars(part).get("forward")) for part in module.modules())
        if code not in answers:
            answers[code] = _reaches_exchange(module)
        if not answers[code]:
            name, path = type(module).__name__, next(path for path, one in model.named_modules() if one is module)
            raise PatchgenError(
                f"{type(model).__name__} cannot split sequences: {name} ('{path}') exchanges nothing between ranks",
                hint=f"Patch {name} with sequence_parallel_attention as docs/parallel.md describes, or run with"
                " sp_size=1. For exchanges that its code does not show, call parallelize(..., splits_sequences=True).",
            )


def _find_token_mixers(model: nn.Module) -> list[nn.Module]:
    """The modules that mix tokens in the part of a model that works on text.

    Those of a decoder know their layer, for the sake of its cache; those of towers do not.
    """
    find = getattr(model, "get_decoder", None)
    decoder = find() if callable(find) else None
    mixers = list(_outermost(decoder if isinstance(decoder, nn.Module) else model))
    return [module for module in mixers if hasattr(module, "layer_idx")] or mixers


def _outermost(module: nn.Module) -> Iterator[nn.Module]:
    """The outermost modules whose classes are called after what mixes tokens."""
    for child in module.children():
        if _MIXES_TOKENS.search(type(child).__name__):
            yield child
        else:
            yield from _outermost(child)


def _reaches_exchange(module: nn.Module) -> bool:
    """Whether the code of a module, or of one inside it, refers to an exchange, through however many functions."""
    implementation = getattr(getattr(module, "config", None), "_attn_implementation", None) or ""
    left: list[Any] = []
    for part in module.modules():
        left += [vars(part).get("forward"), *_methods(type(part), {"torch", "builtins"})]
    followed: set[FunctionType] = set()
    while left:
        value = _unwrap(left.pop())
        if _is_exchange(value):
            return True
        if isinstance(value, FunctionType) and value not in followed:
            followed.add(value)
            left += _values_in(value, implementation)
    return False


def _values_in(function: FunctionType, implementation: str) -> Iterator[Any]:
    """What the code of a function may call."""
    names = {name for code in _nested(function.__code__) for name in code.co_names}
    for name in names:
        yield from _callables(function.__globals__.get(name, sys.modules.get(name)), names, implementation)
    for cell in function.__closure__ or ():
        yield from _callables(_content(cell), names, implementation)


def _callables(value: Any, names: set[str], implementation: str) -> Iterator[Any]:
    """What stands behind a value: itself, or what a class, a table or a module has, of a module these names."""
    value = _unwrap(value)
    if isinstance(value, ModuleType):
        if _package(value.__name__) not in _OPAQUE or value.__name__ == "torch" or _is_distributed(value.__name__):
            for name in names:
                yield from _callables(_attribute(value, name), names - {name}, implementation)
    elif isinstance(value, Mapping):
        every = value.values() if isinstance(value, dict) else ()
        yield from [value[implementation]] if implementation in value else every
    elif isinstance(value, type):
        yield from _methods(value, _OPAQUE)
    elif _is_exchange(value) or _package(_home(value)) not in _OPAQUE:
        yield value if isinstance(value, FunctionType) else inspect.getattr_static(type(value), "__call__", None)


def _methods(kind: type, without: frozenset[str] | set[str]) -> Iterator[Any]:
    for base in kind.__mro__:
        if _package(base.__module__) not in without:
            yield from vars(base).values()


def _unwrap(value: Any) -> Any:
    """The function inside a partial one, a method, a decorator."""
    while isinstance(value, functools.partial):
        value = value.func
    value = getattr(value, "__func__", value)
    return inspect.unwrap(value) if isinstance(value, FunctionType) else value


def _is_exchange(value: Any) -> bool:
    return _is_distributed(_home(value)) and str(getattr(value, "__name__", "")).startswith(_EXCHANGES)


def _is_distributed(module: str) -> bool:
    return module.startswith("torch.distributed")


def _attribute(module: ModuleType, name: str) -> Any:
    try:
        return getattr(module, name, None)
    except ImportError:  # of a module that loads its names late
        return None


def _home(value: Any) -> str:
    return str(getattr(value, "__module__", None) or "")


def _package(name: str) -> str:
    return name.partition(".")[0]


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # of a name that is not bound yet
        return None
