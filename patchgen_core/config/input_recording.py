"""Noticing what a config looks at while it is loaded, beside the files that it consists of."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from patchgen_core.project.project import Project

Input = tuple[str, str]
"""What a result depends on: a kind and a name, see :mod:`patchgen_core.build.inputs`."""

_PURE = frozenset(
    (
        *(
            "__future__",
            "abc",
            "ast",
            "bisect",
            "cmath",
            "collections",
            "contextlib",
            "copy",
            "dataclasses",
            "decimal",
        ),
        *("enum", "fractions", "functools", "heapq", "itertools", "keyword", "logging", "math", "numbers", "operator"),
        *("re", "statistics", "string", "textwrap", "types", "typing", "typing_extensions", "weakref"),
    )
)
"""Modules of the standard library whose functions see nothing but their arguments."""

_FIXED = frozenset([("sys", "version_info")])
"""What never changes for one version of Python."""

OWN = ("patchgen", "patchgen_core", "pytest_patchgen")
"""The packages of patchgen."""

_DSL = frozenset(("patchgen_core.config.spec", "patchgen_core.config.declarations"))
"""Where the functions of patchgen stand that see nothing but their arguments."""


class RecordedInputs:
    """The inputs that went into a result, collected while it is made, each with its state.

    ``uncacheable`` says why the result may be another one although no state changes; empty for no such reason.
    """

    def __init__(self) -> None:
        self.states: dict[Input, Any] = {}
        self.uncacheable = ""

    def add(self, kind: str, name: str, state: Any) -> None:
        """Record the state of an input."""
        if self.states.setdefault((kind, name), state) != state:
            self.mark_uncacheable("files come or go while it is loaded")

    def mark_uncacheable(self, reason: str) -> None:
        """Record why the result must not be kept; the first reason counts."""
        self.uncacheable = self.uncacheable or reason


class _RecordingModule(types.ModuleType):
    """A module of the standard library, or of patchgen, that says when something of it is used.

    That a config imports ``os`` for the code that it copies tells nothing; that it reads ``os.environ`` does.
    """

    _real_module: types.ModuleType
    _recorded_inputs: RecordedInputs

    def __init__(self, real: types.ModuleType, inputs: RecordedInputs) -> None:
        super().__init__(real.__name__)
        super().__setattr__("_real_module", real)
        super().__setattr__("_recorded_inputs", inputs)

    def __getattr__(self, name: str) -> Any:
        real, inputs = self._real_module, self._recorded_inputs
        value = getattr(real, name)
        if isinstance(value, types.ModuleType):
            return recording_module(value, inputs)
        if not _is_same_everywhere(real, name, value):
            inputs.mark_uncacheable(f"it uses {real.__name__}.{name} while it is loaded")
        return value

    @property
    def __dict__(self) -> Mapping[str, Any]:  # type: ignore[override]
        """Of the real module: what ``vars``, ``dir`` and an import of every name look at."""
        self._recorded_inputs.mark_uncacheable(f"it lists {self.__name__} while it is loaded")
        return vars(self._real_module)

    def __setattr__(self, name: str, value: Any) -> None:
        self._recorded_inputs.mark_uncacheable(f"it sets {self.__name__}.{name}")
        setattr(self._real_module, name, value)


def recording_module(module: types.ModuleType, inputs: RecordedInputs) -> types.ModuleType:
    """What stands in a config for a module of the standard library or of patchgen."""
    top = module.__name__.partition(".")[0]
    is_constant = top in _PURE or top not in (*sys.stdlib_module_names, *OWN)
    return module if is_constant or isinstance(module, _RecordingModule) else _RecordingModule(module, inputs)


def starred_module(module: types.ModuleType, inputs: RecordedInputs) -> types.ModuleType:
    """What stands for a module of patchgen while every name of it is imported: a function counts once it is called."""
    real = module._real_module if isinstance(module, _RecordingModule) else module
    starred = types.ModuleType(real.__name__)
    names = list(real.__all__)
    values = {name: getattr(real, name) for name in names}
    for name, value in values.items():
        if not _is_same_everywhere(real, name, value):
            values[name] = _watched(value, f"it calls {real.__name__}.{name} while it is loaded", inputs)
    vars(starred).update(values, __all__=names)
    return starred


def _watched(function: Callable[..., Any], reason: str, inputs: RecordedInputs) -> Callable[..., Any]:
    """A function that says when it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        inputs.mark_uncacheable(reason)
        return function(*args, **kwargs)

    return call


def _is_same_everywhere(module: types.ModuleType, name: str, value: Any) -> bool:
    """Whether something of a module is the same on every machine."""
    if module.__name__.partition(".")[0] not in OWN:
        return (module.__name__, name) in _FIXED
    return not isinstance(value, types.FunctionType) or value.__module__ in _DSL


def recording_builtins(inputs: RecordedInputs) -> dict[str, Any]:
    """The builtin functions that look at the machine, or do something to it that a kept result would leave out."""

    names = ("input", "open", "print")
    reasons = {name: f"it calls {name} while it is loaded" for name in names}
    return {name: _watched(getattr(builtins, name), reason, inputs) for name, reason in reasons.items()}


def input_name(project: Project, path: Path) -> str:
    """A path as inputs and their states have it: from the project's root, if it is below that."""
    text, base = str(path), f"{project.base}{os.sep}"
    return text[len(base) :].replace(os.sep, "/") if text.startswith(base) else text


def is_absent(project: Project, top: str) -> bool:
    """Whether a top-level package is neither installed nor one that the project has."""
    roots = list(map(str, project.import_roots))
    try:
        return importlib.machinery.PathFinder.find_spec(top, roots) is None and importlib.util.find_spec(top) is None
    except (ImportError, ValueError):
        return False
