"""Describes what a patcher puts in the place of upstream's classes, functions and values."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import inspect
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from patchgen_core.authoring.adopt.patcher_run import PatchedValue, UsedName, ValueKind
from patchgen_core.authoring.adopt.wrappers import read_wrapper
from patchgen_core.codegen.renaming import map_prefixes
from patchgen_core.config.replacement import Replacement, read_replacement
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.runtime.namespaces import MISSING
from patchgen_core.syntax.forms import resolved
from patchgen_core.syntax.index import ModuleIndex
from patchgen_core.syntax.scope_analysis import find_scopes
from patchgen_core.syntax.source import SourceCache

_SOURCES = SourceCache()


def describe(
    value: Any, bound: Mapping[str, Any], home: str, original: Any = None, inlined: Sequence[str] = ()
) -> PatchedValue:
    """A value as a patch config can have it.

    Args:
        bound: what the generated module's global names will stand for.
        home: the patcher's module, where else the value may have a name.
        original: upstream's method that a function takes the place of, which it may call.
        inlined: modules that nothing is to be imported from.
    """
    wrapper, inner = _unwrapped(value)
    wrapping = read_wrapper(inner, original) if original is not None and not wrapper else None
    if wrapping is not None:
        uses = tuple(_uses(wrapping.replacement, bound))
        # functools.wraps gives it upstream's name
        own = f"{inner.__globals__['__name__']}.{inner.__code__.co_name}"
        label = f"{own if hasattr(inner, '__wrapped__') else name_of(inner)}, around upstream's"
        return PatchedValue("function", label, source=wrapping.replacement.text, uses=uses, wraps=wrapping.name)
    text = name_of(inner)
    if isinstance(inner, types.ModuleType):
        return PatchedValue("module", text, module=inner.__name__)
    module, name = _import_path(inner, home)
    text = f"{module}.{name}" if module else text
    module, name = ("", name) if module in inlined else (module, name)
    if not isinstance(inner, (type, types.FunctionType, types.BuiltinFunctionType)):
        literal = "" if wrapper else _literal(inner)
        return PatchedValue("literal" if literal else "other", literal or text, module, name)
    kind: ValueKind = "class" if isinstance(inner, type) else "function"
    try:
        replacement = _readable(inner, name, wrapper)
    except PatchgenError as error:
        return PatchedValue(kind, text, module, name, why=error.problems[0].message)
    source = "" if module else "\n".join([*replacement.comments, *replacement.decorators, replacement.text])
    return PatchedValue(kind, text, module, name if module else "", source, tuple(_uses(replacement, bound)))


def describe_helpers(
    values: Iterable[PatchedValue], bound: Mapping[str, Any], home: str, inlined: Sequence[str]
) -> dict[str, PatchedValue]:
    """What values use of modules that nothing is to be imported from, and what that uses, by name."""
    helpers: dict[str, PatchedValue] = {}
    waiting = list(values)
    while waiting:
        for use in waiting.pop().uses:
            if use.kind == "imported" and use.module in inlined and use.attribute and use.name not in helpers:
                value = describe(_from(use.module, use.attribute), bound, home, inlined=inlined)
                if value.source or value.kind == "literal":
                    helpers[use.name] = value
                    waiting.append(value)
    return helpers


def name_of(value: Any) -> str:
    """A value as a message names it."""
    _, inner = _unwrapped(value)
    if isinstance(inner, (type, types.FunctionType, types.BuiltinFunctionType)):
        return f"{inner.__module__}.{inner.__qualname__}"
    if isinstance(inner, types.ModuleType):
        return f"the module {inner.__name__}"
    return _literal(inner) or f"an object of type {type(inner).__qualname__}"


def _unwrapped(value: Any) -> tuple[str, Any]:
    """The function in a descriptor, and what the descriptor is."""
    if isinstance(value, (staticmethod, classmethod)):
        return type(value).__name__, value.__func__
    if isinstance(value, property):
        return "property", value.fget
    if isinstance(value, functools.cached_property):
        return "cached_property", value.func
    return "", value


def _literal(value: Any) -> str:
    """The source of a value that can be written down, or nothing."""
    text = repr(value)
    try:
        same = ast.literal_eval(text) == value
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return ""
    return text if same is True else ""


def _import_path(value: Any, home: str) -> tuple[str, str]:
    """The module and the name that a value can be imported by; its own ones, or those of a variable."""
    module = getattr(value, "__module__", None)
    path = getattr(value, "__qualname__", "")
    if isinstance(module, str) and _find(module, path) is value:
        return module, path
    for place in dict.fromkeys(name for name in (module, home) if isinstance(name, str) and name in sys.modules):
        for name, other in vars(sys.modules[place]).items():
            if other is value and place != "__main__" and not _literal(value):
                return place, name
    return "", ""


def _find(module: str, path: str) -> Any:
    value: Any = sys.modules.get(module) if module != "__main__" else None
    for part in path.split("."):
        value = inspect.getattr_static(value, part, None)
    return _unwrapped(value)[1]


# --- source ----------------------------------------------------------------------------------------


def _readable(value: Any, name: str, wrapper: str) -> Replacement:
    """The source of a class or function; PatchgenError where something that it does is missing there."""
    replacement = read_replacement(value, _SOURCES, {}, Location(""))
    if isinstance(value, type):
        functions = [_unwrapped(entry)[1] for entry in vars(value).values()]
        codes = [function.__code__ for function in functions if isinstance(function, types.FunctionType)]
        free = sorted({name for code in codes for name in code.co_freevars} - {"__class__"})
        if free:
            raise PatchgenError(f"it uses {', '.join(free)} of the function that it is defined in")
    if wrapper and not any(text.lstrip("@ ").startswith(wrapper) for text in replacement.decorators):
        raise PatchgenError(f"it becomes a {wrapper} where it is installed, which its source does not show")
    is_wrapped = "__wrapped__" in getattr(value, "__dict__", {})
    if is_wrapped and name.rpartition(".")[2] != replacement.name:
        raise PatchgenError("it is wrapped where it is installed, which its source does not show")
    return replacement


def _uses(replacement: Replacement, bound: Mapping[str, Any]) -> Iterator[UsedName]:
    """The global names that a replacement refers to, and where they come from."""
    text = "\n".join([*replacement.decorators, replacement.text])
    evaluated, mentioned, written = _global_names(text, replacement.names)
    source = _SOURCES.get(Path(replacement.location.file))
    imports = dict(_imports(source.index, replacement.package))
    own = str(replacement.namespace["__name__"])
    for name in sorted(evaluated | mentioned):
        if name in written:  # of its own module, which others read
            yield UsedName(name, "clash")
        elif name not in replacement.namespace:
            if name in bound:
                yield UsedName(name, "upstream")
            elif name in imports:
                is_there = _from(*imports[name]) is not MISSING
                yield UsedName(name, "imported" if is_there else "mentioned", *imports[name])
            elif name in evaluated and not hasattr(builtins, name):
                yield UsedName(name, "unknown")
        else:
            value = replacement.namespace[name]
            place = imports.get(name, (own, name))
            if _from(*place) is not value:  # as after 'except ImportError: name = None'
                place = (own, name)
            if name not in bound:
                yield UsedName(name, "imported", *place)
            elif _is_same(bound[name], value):
                yield UsedName(name, "upstream")
            else:
                yield UsedName(name, "renamed" if _is_renamable(text, name) else "clash", *place)


def _from(module: str, attribute: str) -> Any:
    """What an import statement would bind."""
    try:
        imported = importlib.import_module(module)
        return getattr(imported, attribute) if attribute else imported
    except (ImportError, AttributeError):
        return MISSING


def _is_renamable(text: str, name: str) -> bool:
    """Whether a word stands for nothing but a global name, so that ``name_map`` renames that alone."""
    for node in ast.walk(ast.parse(text)):
        words = [str(value) for _, value in ast.iter_fields(node) if isinstance(value, str)]
        is_name = isinstance(node, ast.Name) and node.id == name
        if not is_name and any(map_prefixes(word, {name: "_"}) != word for word in words):
            return False
    return True


def _global_names(text: str, names: Set[str]) -> tuple[Set[str], Set[str], Set[str]]:
    """The global names that a definition evaluates, that only its string annotations mention, and that it sets."""
    scopes = find_scopes(ast.parse(text))
    references = [reference for reference in scopes.references if isinstance(reference.node, ast.Name)]
    evaluated = {name for reference in references for name in reference.names if reference.is_global(name)}
    bound_names = {name for name, _ in scopes.bindings}.union(*(reference.names for reference in references))
    return evaluated | scopes.rebound, names - bound_names, scopes.rebound


def _imports(index: ModuleIndex, package: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """What the import statements of a module bind: a module and an attribute of it, or a module alone."""
    for name, bindings in index.imports.items():
        for statement, alias in bindings:
            if isinstance(statement, ast.ImportFrom):
                yield name, (resolved(statement, package), alias.name)
            elif alias.asname or "." not in alias.name:
                yield name, (alias.name, "")


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values are one, or functions of the same code, as transformers' copies of one function are."""
    if one is other:
        return True
    if not (isinstance(one, types.FunctionType) and isinstance(other, types.FunctionType)):
        return False
    return _code(one.__code__) == _code(other.__code__) and one.__defaults__ == other.__defaults__


def _code(code: types.CodeType) -> tuple[Any, ...]:
    """What a code object does, without where it stands."""
    constants = tuple(_code(c) if isinstance(c, types.CodeType) else (type(c), c) for c in code.co_consts)
    return (code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants)
