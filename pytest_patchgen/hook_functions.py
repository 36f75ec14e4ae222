"""Functions that plugins bring for the process that runs models, as references: it imports them itself."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from patchgen_core.errors import Location, PatchgenError

_DOTTED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_IN_FILE = re.compile(r".+\.py:[A-Za-z_]\w*")


@dataclass(frozen=True)
class _Hook:
    """A hook that returns functions, and what messages call these."""

    name: str
    role: str
    example: str


_TOY_BATCHES = _Hook("pytest_patchgen_toy_batches", "builder", "acme.toys:picture_batches")
_SETUP = _Hook("pytest_patchgen_setup", "set-up", "acme.testing:setup")


def toy_builders(config: pytest.Config) -> tuple[str, ...]:
    """The builders of toy batches that plugins and ``conftest.py`` files name (:func:`_references`)."""
    return _references(config.hook.pytest_patchgen_toy_batches(config=config), _TOY_BATCHES, config.rootpath)


def model_setups(config: pytest.Config) -> tuple[str, ...]:
    """The set-ups of models that plugins and ``conftest.py`` files name (:func:`_references`)."""
    return _references(config.hook.pytest_patchgen_setup(config=config), _SETUP, config.rootpath)


def _references(results: list[Any], hook: _Hook, root: Path) -> tuple[str, ...]:
    """The functions that implementations of a hook returned, in the order of their registration, as references:
    ``package.module:function``, or ``/path/conftest.py:function``.

    Raises:
        PatchgenError: what one returned is no sequence, or another process cannot find what is in it.
    """
    references: list[str] = []
    for functions in reversed(results):
        if isinstance(functions, str) or not isinstance(functions, Iterable):
            hint = f"Return a list of functions, or of strings such as '{hook.example}'."
            raise PatchgenError(
                f"{hook.name} returned {functions!r}, which is not a sequence of {hook.role}s", hint=hint
            )
        references += [_reference(function, hook, root) for function in functions]
    return tuple(dict.fromkeys(references))


def _reference(function: object, hook: _Hook, root: Path) -> str:
    if isinstance(function, str):
        if _IN_FILE.fullmatch(function):
            return os.path.abspath(root / function)
        if _DOTTED.fullmatch(function):
            return function
        hint = "Write 'package.module:function'."
        raise PatchgenError(f"{hook.name} returned '{function}', which names no {hook.role}", hint=hint)
    if not isinstance(function, FunctionType):
        raise _not_found(function, hook, None)
    inner: Any = inspect.unwrap(function)
    path = Path(os.path.abspath(inner.__code__.co_filename))
    place = Location(str(path), inner.__code__.co_firstlineno)
    name = function.__qualname__
    if not name.isidentifier() or inner.__globals__.get(name) is not function:
        raise _not_found(function, hook, place)
    is_file = path.name == "conftest.py" or function.__module__ == "__main__"
    return f"{path}:{name}" if is_file else f"{function.__module__}:{name}"


def _not_found(function: object, hook: _Hook, place: Location | None) -> PatchgenError:
    name = getattr(function, "__qualname__", "") or f"an object of type {type(function).__qualname__}"
    message = f"{hook.name} returned {name}, which the process that runs models cannot find"
    return PatchgenError(message, place, "Return a function that is defined with 'def' at the top of its file.")
