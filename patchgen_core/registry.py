"""Which class stands for a model: found by what ``config.json`` and ``processor_config.json`` say.

A project registers, beside its generated modules, functions that import them only when they are asked for::

    @MODELING_REGISTRY.register("qwen3")
    def register_modeling(architecture: str):
        from .generated.patched_modeling_qwen3_gpu import Qwen3ForCausalLM, Qwen3Model

        return Qwen3ForCausalLM if "ForCausalLM" in architecture else Qwen3Model

Where a GPU and an NPU module stand side by side, the function may choose between them itself, or each has its own:
``@MODELING_REGISTRY.register("qwen3", device_type="cuda")`` and ``device_type="npu"``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from patchgen_core.conversions import share_conversions
from patchgen_core.errors import Location, PatchgenError, did_you_mean
from patchgen_core.ops import hardware

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

DEVICE_TYPES = ("cuda", "npu", "cpu")
"""What ``device_type`` may be, as torch calls it. On a CPU the module for ``cuda`` runs, if it has no other: there a
generated GPU module executes upstream's lines."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class _Registration:
    """A registered function, and the device it is for; ``""`` when it is for all of them."""

    function: Callable[..., Any]
    device_type: str
    location: Location


class Registry:
    """Functions by name, each registered once; errors call the registry ``name``, and its keys ``key``."""

    def __init__(self, name: str, key: str) -> None:
        self.name, self.key = name, key
        self._entries: dict[str, dict[str, _Registration]] = {}

    def register(self, key: str, device_type: str | None = None) -> Callable[[_Function], _Function]:
        """A decorator that registers a function, for one of :data:`DEVICE_TYPES` or for all, and returns it as it is.

        Registering the function of the same file and line again, as a reload does, replaces it.

        Raises:
            PatchgenError: the key is taken, or is no name; the device is unknown; what is decorated is no
                function.
        """
        self._check_key(key)
        if device_type is not None:
            _check_device(device_type)

        def decorator(function: _Function) -> _Function:
            if not isinstance(function, FunctionType):
                raise PatchgenError(
                    f"{self.name}.register({key!r}) decorates a function that returns the class, not {function!r}"
                )
            code = function.__code__
            entry = _Registration(function, device_type or "", Location(code.co_filename, code.co_firstlineno))
            self._refuse_duplicate(key, entry)
            self._entries.setdefault(key, {})[entry.device_type] = entry
            return function

        return decorator

    def unregister(self, key: str, device_type: str | None = None) -> None:
        """Forget a key, for all devices or for one.

        Raises:
            PatchgenError: it is not registered.
        """
        devices = self._devices(key)
        if device_type is None:
            del self._entries[key]
        elif devices.pop(device_type, None) is None:
            raise self._other_device(key, device_type)
        elif not devices:
            del self._entries[key]

    def get(self, key: str, device_type: str | None = None) -> Callable[..., Any]:
        """The function of a key; ``device_type`` may be left out where there is one function for all devices.

        Raises:
            PatchgenError: nothing is registered under it, or only for other devices.
        """
        return self._entry(key, device_type).function

    def functions(self, key: str) -> tuple[Callable[..., Any], ...]:
        """The functions of a key, each once, for whichever device; none where it is not registered."""
        return tuple(dict.fromkeys(one.function for one in self._entries.get(key, {}).values()))

    def keys(self) -> tuple[str, ...]:
        """All keys, in the order in which they were registered."""
        return tuple(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __repr__(self) -> str:
        return f"<{self.name}: {', '.join(self._entries) or 'empty'}>"

    def _check_key(self, key: object) -> None:
        if callable(key):
            raise PatchgenError(
                f"{self.name}.register needs the {self.key}", hint=f"Write @{self.name}.register('...')."
            )
        if not isinstance(key, str) or not key or key != key.strip():
            raise PatchgenError(f"{self.name}.register({key!r}): a {self.key} is a string without blanks around it")

    def _refuse_duplicate(self, key: str, new: _Registration) -> None:
        for old in self._entries.get(key, {}).values():
            if old.location == new.location and old.device_type == new.device_type:
                continue
            if old.device_type == new.device_type or not (old.device_type and new.device_type):
                message = (
                    f"the {self.key} '{key}' is registered twice: at {old.location}{_for(old.device_type)} "
                    f"and at {new.location}{_for(new.device_type)}"
                )
                hint = "" if old.device_type == new.device_type else "Give both their device_type."
                raise PatchgenError(message, new.location, hint)

    def _devices(self, key: str) -> dict[str, _Registration]:
        if key not in self._entries:
            names = ", ".join(sorted(self._entries)) or "none"
            hint = (
                did_you_mean(key, self._entries) or f"Registered: {names}. Is the package that registers it imported?"
            )
            raise PatchgenError(f"no {self.key} '{key}' is registered in {self.name}", hint=hint)
        return self._entries[key]

    def _entry(self, key: str, device_type: str | None) -> _Registration:
        devices = self._devices(key)
        if "" in devices:
            return devices[""]
        if device_type is None:
            choices = ", ".join(map(repr, devices))
            raise PatchgenError(f"the {self.key} '{key}' is registered by device: say which of {choices} it is for")
        for candidate in (device_type, "cuda") if device_type == "cpu" else (device_type,):
            if candidate in devices:
                return devices[candidate]
        raise self._other_device(key, device_type)

    def _other_device(self, key: str, device_type: str) -> PatchgenError:
        entries = self._entries[key].values()
        places = " and".join(f"{_for(entry.device_type) or ' for all'} at {entry.location}" for entry in entries)
        message = f"the {self.key} '{key}' is not registered for '{device_type}', only{places}"
        return PatchgenError(message, hint=did_you_mean(device_type, self._entries[key]))


MODELING_REGISTRY = Registry("MODELING_REGISTRY", "model type")
"""Functions ``(architecture: str) -> class``, by the ``model_type`` of ``config.json``."""

MODEL_CONFIG_REGISTRY = Registry("MODEL_CONFIG_REGISTRY", "model type")
"""Functions ``() -> configuration class``, by the ``model_type`` of ``config.json``."""

MODEL_PROCESSOR_REGISTRY = Registry("MODEL_PROCESSOR_REGISTRY", "processor class")
"""Functions ``() -> processor class``, by the ``processor_class`` of ``processor_config.json``."""


def resolve_model_class(
    config: PreTrainedConfig | Mapping[str, Any], device_type: str | None = None
) -> type[PreTrainedModel]:
    """The registered class for a model: by ``model_type``, and the first of ``architectures``.

    transformers converts checkpoints for it from then on, as it does for its own class. The device is one of
    :data:`DEVICE_TYPES`, by default what this machine has (:func:`this_device_type`).

    Raises:
        PatchgenError: the config has no model type or no architecture, its model type is not registered or only
            for other devices, or the registered function gives no class of that name.
    """
    model_class = find_model_class(config, device_type)
    share_conversions(model_class)
    return model_class


def find_model_class(
    config: PreTrainedConfig | Mapping[str, Any], device_type: str | None = None
) -> type[PreTrainedModel]:
    """What :func:`resolve_model_class` gives; how transformers converts checkpoints stays as it is.

    Raises:
        PatchgenError: the config has no model type or no architecture, its model type is not registered or only
            for other devices, or the registered function gives no class of that name.
    """
    model_type, architecture = _asked_for(config)
    device_type = this_device_type() if device_type is None else device_type
    _check_device(device_type)
    entry = MODELING_REGISTRY._entry(model_type, device_type)
    model_class = entry.function(architecture)
    if isinstance(model_class, type) and model_class.__name__ == architecture:
        return model_class
    value = _describe(model_class)
    message = f"the function registered for '{model_type}' gives {value} for the architecture '{architecture}'"
    raise PatchgenError(message, entry.location, _hint(model_class, architecture))


def this_device_type() -> str:
    """``cuda`` or ``npu`` where torch has such a device here, else ``cpu``."""
    kind = hardware.device_type()
    return kind if kind in DEVICE_TYPES else "cpu"


def _asked_for(config: PreTrainedConfig | Mapping[str, Any]) -> tuple[str, str]:
    """The model type and the architecture of a config."""

    def value(name: str) -> Any:
        return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)

    model_type, architectures = value("model_type"), value("architectures")
    if not isinstance(model_type, str) or not model_type:
        raise PatchgenError(f"the config has no model_type, so its model is unknown: {_brief(config)}")
    if isinstance(architectures, str) or not architectures:
        raise PatchgenError(
            f"the config of model type '{model_type}' has architectures={architectures!r}, so its class is unknown",
            hint="Set config.architectures to a list with the class's name, such as ['Qwen3ForCausalLM'].",
        )
    return model_type, str(architectures[0])


def _check_device(device_type: str) -> None:
    if device_type not in DEVICE_TYPES:
        choices = ", ".join(map(repr, DEVICE_TYPES))
        near = "cuda" if device_type == "gpu" else ""
        hint = f"Did you mean '{near}'?" if near else did_you_mean(str(device_type), DEVICE_TYPES)
        raise PatchgenError(f"unknown device_type {device_type!r}; known are {choices}", hint=hint)


def _for(device_type: str) -> str:
    return f" for '{device_type}'" if device_type else ""


def _brief(config: object) -> str:
    return type(config).__name__ if not isinstance(config, Mapping) else f"keys {sorted(map(str, config))[:8]}"


def _describe(value: object) -> str:
    return f"the class {value.__module__}.{value.__name__}" if isinstance(value, type) else repr(value)


def _hint(value: object, architecture: str) -> str:
    if not isinstance(value, type):
        return f"Return the class '{architecture}', or raise if there is none."
    home = sys.modules.get(value.__module__)
    if isinstance(getattr(home, architecture, None), type):
        return f"{value.__module__} has a class '{architecture}': let the function return it."
    return f"Add '{architecture}' to the generated module, or name a class that it has in config.architectures."
