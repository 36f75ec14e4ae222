"""What a config asks of the DSL that it does not have: the same however the config is loaded."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from patchgen_core.config.shared_edits import Edits
from patchgen_core.config.spec import PatchConfig, create_patch_from_external
from patchgen_core.errors import Location, PatchgenError, did_you_mean

_CLASSES = (PatchConfig, Edits)
_REFUSED = re.compile(r"(?:(\w+)\.)?(\w+)\(\) (.+)")
_UNKNOWN = re.compile(r"got an unexpected keyword argument '(\w+)'")


def refuse_misuse(error: BaseException, location: Location) -> None:
    """Raise a PatchgenError for a call or an attribute of the DSL that there is not."""
    if isinstance(error, AttributeError) and isinstance(error.obj, _CLASSES):
        kind, name = type(error.obj), str(error.name)
        names = [each for each in dir(kind) if not each.startswith("_")]
        raise PatchgenError(f"{kind.__name__} has no '{name}'", location, did_you_mean(name, names))
    refused = _REFUSED.fullmatch(str(error)) if isinstance(error, TypeError) else None
    called = _find_called(refused[1], refused[2]) if refused is not None else None
    if refused is None or called is None:
        return
    name = refused[1] if refused[2] == "__init__" else refused[2]
    unknown = _UNKNOWN.match(refused[3])  # Python 3.13 goes on with what may be meant
    if unknown is None:
        raise PatchgenError(f"{name}() {refused[3]}", location)
    arguments = _list_arguments(called)
    hint = did_you_mean(unknown[1], arguments) or f"It takes {', '.join(arguments)}."
    raise PatchgenError(f"{name}: there is no argument '{unknown[1]}'", location, hint)


def _find_called(owner: str | None, name: str) -> Callable[..., Any] | None:
    if owner is None:
        return create_patch_from_external if name == create_patch_from_external.__name__ else None
    named = (getattr(kind, name, None) for kind in _CLASSES if kind.__name__ == owner)
    return next(named, None)


def _list_arguments(function: Callable[..., Any]) -> list[str]:
    from inspect import signature

    return [name for name in signature(function).parameters if name != "self"]
