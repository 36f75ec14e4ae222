"""Checking what a config passes to the DSL, at the line that passes it."""

from __future__ import annotations

import functools
import keyword
import os
import re
import sys
import types
from collections.abc import Mapping
from typing import Any

from patchgen_core.errors import Location, PatchgenError

_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def caller() -> Location:
    """The nearest frame outside this package: the line of the config that is being executed."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN_FOLDER):
        frame = frame.f_back
    return Location(_normal_path(frame.f_code.co_filename), frame.f_lineno)


def _normal_path(path: str) -> str:
    """An absolute path without its detours."""
    return _without_detours(path) if os.path.isabs(path) else os.path.abspath(path)


_without_detours = functools.lru_cache(maxsize=256)(os.path.normpath)


def decorated_at(value: Any, location: Location) -> Location:
    """Where a bare decorator stands: Python 3.10 takes it for the line of the ``def`` below it."""
    code = getattr(value, "__code__", None)
    if code is None or os.path.abspath(code.co_filename) != location.file:
        return location
    lines = [line for _, _, line in code.co_lines() if line is not None]
    is_inside = code.co_firstlineno <= location.line <= max(lines, default=0)
    return Location(location.file, code.co_firstlineno) if is_inside else location


def value_text(value: Any) -> str:
    """A value as an error shows it: the same in every run, so without an address."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, (str, int, float, type(None))):
        return repr(value)
    return str(getattr(value, "__qualname__", None) or f"an object of type {type(value).__qualname__}")


def text(label: str, value: Any, location: Location, empty: bool = False) -> str:
    """``value``, if it is a string; ``empty`` lets it be empty. Raises :class:`StubValueError` for a stub."""
    _refuse_stub(value)
    if isinstance(value, str) and (empty or value.strip()):
        odd = re.search(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", value)
        if odd is not None:
            raise PatchgenError(f"{label} holds the character {odd[0]!r}", location)
        return value
    kind = "a string" if empty else "a non-empty string"
    raise PatchgenError(f"{label} must be {kind}, not {value_text(value)}", location)


def target(call: str, value: Any, location: Location) -> str:
    """The target that a patch names; a call that was used as a bare decorator gets an error that says what to do."""
    if isinstance(value, (type, types.FunctionType)):
        hint = f'Write @config.{call}("Name") with upstream\'s name.'
        raise PatchgenError(f"{call}: no target is named", decorated_at(value, location), hint)
    return text("target", value, location)


def method_target(call: str, value: Any, location: Location) -> str:
    """The target of a patch that is about a method."""
    name = target(call, value, location)
    if "." not in name:
        example = f"'{name}.forward' for one method" if name[:1].isupper() else f"'Class.{name}'"
        hint = f"Write {example}, or use replace_class or replace_function."
        raise PatchgenError(f"{call}: '{name}' names no method", location, hint)
    return name


def name_map(value: Any, location: Location) -> dict[str, str]:
    """A checked copy of a ``name_map``."""
    hint = 'It maps class prefixes, such as {"Qwen3VL": "Qwen3VLMoe"}.'
    _refuse_stub(value)
    if value is not None and not isinstance(value, Mapping):
        raise PatchgenError(f"name_map: {value_text(value)} is not a mapping", location, hint)
    names = dict(value or {})
    for name in [*names.keys(), *names.values()]:
        _refuse_stub(name)
        if not is_name(name):
            raise PatchgenError(f"name_map: {value_text(name)} is not a Python name", location, hint)
    return names


def imported(module: Any, names: Any, alias: Any, from_import: bool | None, location: Location) -> tuple[str, ...]:
    """The names of an ``add_import``, checked together with the rest of it."""
    text("module", module, location)
    for value in (names, alias, *(names if isinstance(names, (list, tuple)) else ())):
        _refuse_stub(value)
    if isinstance(names, str):
        raise PatchgenError(f"add_import: names is the string {names!r}", location, f"Pass a list: names=[{names!r}].")
    if module.startswith("."):
        raise PatchgenError(f"add_import: '{module}' is relative", location, "Name the module absolutely.")
    if not is_module(module):
        raise PatchgenError(f"add_import: '{module}' is not a module name", location)
    if from_import and not names:
        hint = "Pass names=[...], or is_from_import=False to import the module itself."
        raise PatchgenError(f"add_import: no names to import from '{module}'", location, hint)
    if names and from_import is False:
        hint = "Leave out names, or is_from_import=False."
        raise PatchgenError(f"add_import: 'import {module}' takes no names", location, hint)
    if names and alias is not None and len(names) != 1:
        hint = "An alias goes with one name, or with is_from_import=False and no names."
        raise PatchgenError(f"add_import: names and alias do not go together for '{module}'", location, hint)
    for name in (*(names or ()), *([alias] if alias is not None else [])):
        parts = name.split(" as ") if isinstance(name, str) else [name]
        if len(parts) > 2 or not all(is_name(part.strip() if isinstance(part, str) else part) for part in parts):
            raise PatchgenError(f"add_import: {value_text(name)} is not a name to import", location)
    return tuple(names or ())


def toy_config(value: Any, location: Location) -> dict[str, Any] | str | None:
    """The toy configuration of a config: a plain copy of a mapping, or an absolute path."""
    _refuse_stub(value)
    if value is None:
        return None
    if isinstance(value, (str, os.PathLike)):
        path = text("toy_config", os.fspath(value), location)
        return os.path.normpath(os.path.join(os.path.dirname(location.file), path))
    if not isinstance(value, Mapping):
        raise PatchgenError(f"toy_config must be a mapping or a path, not {value_text(value)}", location)
    import json

    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(value), default=_refuse_unplain))
    except (TypeError, ValueError) as error:
        hint = "Write it as config.json has it: strings, numbers, lists, mappings."
        raise PatchgenError(f"toy_config is not plain data: {error}", location, hint) from None
    return plain


def _refuse_unplain(value: Any) -> Any:
    _refuse_stub(value)
    raise TypeError(f"it holds {value_text(value)}")


def multiple(call: str, value: Any, location: Location) -> float:
    """A multiple of an error: a finite number that is not negative."""
    _refuse_stub(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise PatchgenError(f"{call}: a multiple is a number, 0 or more, not {value_text(value)}", location)
    return float(value)


def count(call: str, value: Any, location: Location) -> int:
    """How many times a pattern is expected: a whole number from 1."""
    _refuse_stub(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PatchgenError(f"{call}: count is a whole number, 1 or more, not {value_text(value)}", location)
    return value


def is_name(value: Any) -> bool:
    """Whether a value is a Python name, and no keyword."""
    return isinstance(value, str) and value.isidentifier() and not keyword.iskeyword(value)


def is_module(value: Any) -> bool:
    """Whether a value is an absolute dotted module name."""
    return isinstance(value, str) and all(is_name(part) for part in value.split("."))


def _refuse_stub(value: Any) -> None:
    if isinstance(value, (str, type(None))):
        return
    from patchgen_core.config.stubs import ask_for_value, is_stub

    if is_stub(value):
        ask_for_value(value)
