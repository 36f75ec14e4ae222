"""Builders of toy batches that plugins bring, as references: the process that runs models imports them itself."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterable
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from patchgen_core.errors import Location, PatchgenError

_HOOK = "pytest_patchgen_toy_batches"
_DOTTED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_IN_FILE = re.compile(r".+\.py:[A-Za-z_]\w*")


def toy_builders(config: pytest.Config) -> tuple[str, ...]:
    """The builders that plugins and ``conftest.py`` files name, in the order of their registration, as references:
    ``package.module:function``, or ``/path/conftest.py:function``.

    Raises:
        PatchgenError: what a hook returned is no sequence, or another process cannot find what is in it.
    """
    found: list[str] = []
    for builders in reversed(config.hook.pytest_patchgen_toy_batches(config=config)):
        if isinstance(builders, str) or not isinstance(builders, Iterable):
            hint = "Return a list of functions, or of strings such as 'acme.toys:picture_batches'."
            raise PatchgenError(f"{_HOOK} returned {builders!r}, which is no sequence of builders", hint=hint)
        found += [_reference(builder, config.rootpath) for builder in builders]
    return tuple(dict.fromkeys(found))


def _reference(builder: object, root: Path) -> str:
    if isinstance(builder, str):
        if _IN_FILE.fullmatch(builder):
            return os.path.abspath(root / builder)
        if _DOTTED.fullmatch(builder):
            return builder
        hint = "Write 'package.module:function'."
        raise PatchgenError(f"{_HOOK} returned '{builder}', which names no builder", hint=hint)
    if not isinstance(builder, FunctionType):
        raise _not_found(builder, None)
    inner: Any = inspect.unwrap(builder)
    path = Path(os.path.abspath(inner.__code__.co_filename))
    place = Location(str(path), inner.__code__.co_firstlineno)
    name = builder.__qualname__
    if not name.isidentifier() or inner.__globals__.get(name) is not builder:
        raise _not_found(builder, place)
    is_file = path.name == "conftest.py" or builder.__module__ == "__main__"
    return f"{path}:{name}" if is_file else f"{builder.__module__}:{name}"


def _not_found(builder: object, place: Location | None) -> PatchgenError:
    name = getattr(builder, "__qualname__", "") or f"an object of type {type(builder).__qualname__}"
    message = f"{_HOOK} returned {name}, which the process that runs models cannot find"
    return PatchgenError(message, place, "Return a function that is defined with 'def' at the top of its file.")
