"""Do transformers' auto classes and loaders get a generated module's classes for the names of a ``config.json``?"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from patchgen_core.auto import given_classes
from patchgen_core.checks.converter.case import Factory
from patchgen_core.errors import Location, PatchgenError, Problem, list_some
from patchgen_core.models.model_heads import Head, Kind
from patchgen_core.ops import hardware
from patchgen_core.registry import MODELING_REGISTRY, resolve_model_class

_ASKS = "is_torch_npu_available"
_MODULES = ("transformers", "transformers.utils", "transformers.utils.import_utils")
_CONVERTER = "_create_checkpoint_tensor_converter"
_NPU = "npu"
_LOADED: tuple[Kind, ...] = ("causal_lm", "conditional_generation", "base")
_OWN = "{module} has a class of that name: let the registered function return it."
_SET = "Where the class is registered: its _create_checkpoint_tensor_converter = staticmethod({})."


def registered_types(package: str) -> tuple[str, ...]:
    """The model types for which functions of a package, or of a module in it, are registered."""
    functions_by_type = {key: MODELING_REGISTRY.functions(key) for key in (*MODELING_REGISTRY.keys(),)}
    return tuple(
        model_type
        for model_type, functions in functions_by_type.items()
        if any(_is_inside(function.__module__, package) for function in functions)
    )


def _is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


@contextmanager
def on_device(device_type: str, package: str) -> Iterator[None]:
    """Have the functions of a package that choose a module by the device find an NPU, where that is asked for."""
    with ExitStack() as stack:
        if device_type == _NPU:
            functions = (one for key in registered_types(package) for one in MODELING_REGISTRY.functions(key))
            names = dict.fromkeys((*_MODULES, *(function.__module__ for function in functions)))
            for module in map(importlib.import_module, names):
                if hasattr(module, _ASKS):
                    stack.enter_context(_attribute(module, _ASKS, lambda *_, **__: True))
            stack.enter_context(_attribute(hardware, "device_type", lambda: _NPU))
            if not hasattr(torch, _NPU):
                stack.enter_context(_attribute(torch, _NPU, SimpleNamespace(is_available=lambda: True)))
        yield


@contextmanager
def _attribute(owner: Any, name: str, value: object) -> Iterator[None]:
    absent = object()
    before = getattr(owner, name, absent)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is absent:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


def find_unregistered(heads: Sequence[Head], types: Sequence[str]) -> Iterator[Problem]:
    """The heads whose model type a package that registers others does not register."""
    lacking: dict[str, list[str]] = {}
    for head in heads:
        model_type = model_type_of(head.generated)
        if model_type not in types and head.kind in _LOADED[:2]:
            lacking.setdefault(model_type, []).append(head.name)
    for model_type, names in lacking.items():
        message = f"no class is registered for the model type '{model_type}', which has {list_some(names, 4)}"
        hint = f"Registered here: {', '.join(types) or 'nothing'}."
        yield Problem(message, place_of(types), hint, target=names[0])


def find_other_classes(
    module: ModuleType, heads: Sequence[Head], model_type: str, device_type: str
) -> Iterator[Problem]:
    """Where an auto class, or else the registry, gives another class for a model type than the module's of that name.

    :func:`~patchgen_core.auto.register_with_auto` has been called for the model type and the device.
    """
    place, hint = place_of([model_type]), _OWN.format(module=module.__name__)
    others: dict[type, list[str]] = {}
    for auto, given in given_classes(model_type):
        own = getattr(module, given.__name__, given)
        if own is not given and getattr(own, "__module__", "") == module.__name__:
            others.setdefault(given, []).append(auto)
    if others:
        given, autos = next(iter(others.items()))
        rest = [cls.__name__ for cls in others if cls is not given]
        more = f", and not the module's {list_some(rest, 4)} either" if rest else ""
        message = f"{' and '.join(dict.fromkeys(autos))} gives {_dotted(given)}{_asked(device_type)}{more}"
        yield Problem(message, place, hint, target=given.__name__)
        return
    for head in (head for head in heads if model_type_of(head.generated) == model_type and head.kind in _LOADED):
        try:
            given = resolve_model_class({"model_type": model_type, "architectures": [head.name]}, device_type or None)
        except PatchgenError as error:
            first = error.problems[0]
            yield Problem(first.message, first.location or place, first.hint, target=head.name)
            return
        if given is not head.generated:
            message = f"the registry gives {_dotted(given)} for '{head.name}'{_asked(device_type)}"
            yield Problem(message, place, hint, target=head.name)
            return


def given_by_name(name: str, types: Sequence[str], device_type: str) -> Iterator[type]:
    """The classes that the registry gives for a name, under any of some model types."""
    for model_type in types:
        with suppress(PatchgenError):
            yield resolve_model_class({"model_type": model_type, "architectures": [name]}, device_type or None)


def _asked(device_type: str) -> str:
    return f" where an {device_type.upper()} is requested" if device_type == _NPU else ""


def _dotted(model_class: type) -> str:
    return f"{model_class.__module__}.{model_class.__name__}"


def find_other_converters(models: Iterable[Any], factory: Factory, types: Sequence[str]) -> Iterator[Problem]:
    """The models for whose classes loaders make another converter than the one beside the config, or none."""
    place, lacking = place_of(types), []
    for model in models:
        own, expected, name = getattr(type(model), _CONVERTER, None), factory(model), type(model).__name__
        if expected is None:
            continue
        if own is None:
            lacking.append(name)
        elif type(actual := own(model)) is not type(expected):
            message = f"{name} is registered with a converter of class {type(actual).__name__}, not"
            yield Problem(f"{message} {type(expected).__name__}", place, _SET.format(factory.__name__), target=name)
    if lacking:
        message = f"registered without the converter that is beside the config: {list_some(lacking, 4)}"
        yield Problem(message, place, _SET.format(factory.__name__), target=lacking[0])


def model_type_of(model_class: Any) -> str:
    """The model type of the configurations that a class takes."""
    return str(getattr(getattr(model_class, "config_class", None), "model_type", ""))


def place_of(types: Sequence[str]) -> Location | None:
    """Where the function for the first of some model types stands."""
    for model_type in types:
        for function in MODELING_REGISTRY.functions(model_type):
            return Location(function.__code__.co_filename, function.__code__.co_firstlineno)
    return None
