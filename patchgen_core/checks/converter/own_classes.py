"""Are a package's own processors and configuration classes still what transformers' are, beside what they change?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from patchgen_core.errors import Location, Problem
from patchgen_core.models.model_heads import Head
from patchgen_core.registry import MODEL_CONFIG_REGISTRY, MODEL_PROCESSOR_REGISTRY, Registry

_TEXT = "text"
_ARRAY = "ndarray"
_PASS_ON = "It must pass on to {base} whatever that takes; test an argument by 'is None' or by its length."
_FIX = "Set it in '{part}' as well: models of that part are built from it, not from the whole."


def find_problems_of_own_classes(package: str, heads: Sequence[Head]) -> Iterator[Problem]:
    """What is wrong with the processors and configuration classes that a package registers."""
    for processor, place in _registered(MODEL_PROCESSOR_REGISTRY, package):
        yield from _find_lost_inputs(processor, place)
    for config_class, place in _registered(MODEL_CONFIG_REGISTRY, package):
        yield from _find_half_fixed(config_class, heads, place)


def _registered(registry: Registry, package: str) -> Iterator[tuple[Any, Location]]:
    """The classes that functions of a package, or of a module in it, give, and where they stand."""
    for key in [*registry.keys()]:
        for function in registry.functions(key):
            if f"{function.__module__}.".startswith(f"{package}."):
                own = function()
                yield own, Location(inspect.getfile(own), inspect.getsourcelines(own)[1])


def _upstream_of(own: type) -> Any:
    """The class of transformers that a class derives from; None where it is one, or derives from none."""
    bases = (base for base in own.__mro__ if base.__module__.startswith("transformers.models."))
    return next((base for base in bases if base is not own), None)


# --- processors ------------------------------------------------------------------------------------


def _find_lost_inputs(own: Any, place: Location) -> Iterator[Problem]:
    """The media that a processor does not hand on to the one that it derives from, which takes them as arrays."""
    base = _upstream_of(own)
    if base is None or own.__call__ is base.__call__:
        return
    parameters = inspect.signature(base.__call__).parameters.values()
    media = [one.name for one in parameters if one.name != _TEXT and _ARRAY in str(one.annotation)]
    for name in media:
        for kind, value in (("an array", np.zeros((4, 4, 3))), ("a list of arrays", [np.zeros((4, 4, 3))])):
            wrong = _lose(own, base, name, value)
            if wrong:
                message = f"{own.__name__} {wrong} for '{name}' as {kind}, which transformers' {base.__name__} takes"
                yield Problem(message, place, _PASS_ON.format(base=base.__name__), target=own.__name__)
                return


def _lose(own: Any, base: Any, name: str, value: Any) -> str:
    """What goes wrong where a processor without any parts is given one input; empty where nothing does, or where it
    needs its parts before it hands anything on."""
    given: list[dict[str, Any]] = []
    upstream: Callable[..., Any] = base.__call__

    def record(self: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        given.append(inspect.signature(upstream).bind(self, *args, **kwargs).arguments)
        return {}

    base.__call__ = record
    try:
        object.__new__(own)(**{_TEXT: "a word", name: value})
    except AttributeError:
        return ""
    except Exception as error:
        return f"raises {type(error).__name__}: {' '.join(str(error).split())}"
    finally:
        base.__call__ = upstream
    return "passes nothing on" if given and given[0].get(name) is None else ""


# --- configurations --------------------------------------------------------------------------------


def _find_half_fixed(own: Any, heads: Sequence[Head], place: Location) -> Iterator[Problem]:
    """The switches that a configuration class sets whatever a ``config.json`` says, and does not set in a part that
    models are built from alone."""
    base = _upstream_of(own)
    whole = base().to_dict() if base is not None else {}
    classes = {head.upstream.config_class for head in heads}
    parts = [name for name, part in getattr(base, "sub_configs", {}).items() if part in classes]
    for part in parts:
        for name in [name for name, value in whole[part].items() if isinstance(value, bool)]:
            is_own = _is_fixed(own, whole, name) and not _is_fixed(base, whole, name)
            if is_own and not _is_fixed(own, whole, name, part):
                message = f"{own.__name__} sets {name} whatever a config.json says, but not in its {part}"
                yield Problem(message, place, _FIX.format(part=part), target=own.__name__)


def _is_fixed(config_class: Any, whole: dict[str, Any], name: str, part: str = "") -> bool:
    """Whether a switch of a configuration, or of a part of it, does not follow what is read."""
    results = set()
    for value in (True, False):
        read = {**whole, name: value, **({part: {**whole[part], name: value}} if part else {})}
        config = config_class.from_dict(read)
        results.add(getattr(getattr(config, part) if part else config, name, None))
    return len(results) == 1
