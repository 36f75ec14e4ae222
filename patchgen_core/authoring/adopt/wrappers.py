"""Functions that take the place of a method and call it, as monkey patches define them inside of a function."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen_core.config.replacement import Replacement
from patchgen_core.errors import Location
from patchgen_core.syntax.nodes import FUNCTIONS, Function, string_lines
from patchgen_core.syntax.source import SourceFile, parse_source


@dataclass(frozen=True)
class WrapperFunction:
    """A function as ``wrap_method`` takes it: what it calls ``name`` is its first parameter."""

    name: str
    replacement: Replacement


def read_wrapper(value: Any, original: Any) -> WrapperFunction | None:
    """A function that refers to a method that it takes the place of; None for another, or one without a source.

    What else it refers to of the function around it has to be nothing; a decorator ``functools.wraps`` goes, for the
    method's name and signature are there anyhow.
    """
    if not isinstance(value, types.FunctionType):
        return None
    names = dict(_names_of(value, original))
    free = set(value.__code__.co_freevars) - set(names)
    if len(names) != 1 or free:
        return None
    [name] = names
    source = _source_of(value)
    if source is None:
        return None
    function = source.tree.body[0]
    if not isinstance(function, FUNCTIONS) or not _is_plain(function):
        return None
    text = _with_parameter(source, function, name)
    replacement = Replacement(
        name=function.name,
        is_class=False,
        package=str(value.__globals__.get("__package__") or ""),
        comments=(),
        decorators=(),
        text=text,
        string_lines=frozenset(string_lines(ast.parse(text))),
        namespace=value.__globals__,
        location=Location(value.__code__.co_filename, value.__code__.co_firstlineno),
    )
    return WrapperFunction(name, replacement)


def _names_of(function: types.FunctionType, original: Any) -> Iterator[tuple[str, Any]]:
    """The names by which a function refers to something: of the function around it, or of its module."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            if cell.cell_contents is original:
                yield name, original
        except ValueError:  # an empty cell
            continue
    for name in function.__code__.co_names:
        if function.__globals__.get(name) is original:
            yield name, original


def _source_of(function: types.FunctionType) -> SourceFile | None:
    """The function's own text at column 0, decorators included."""
    try:
        text = textwrap.dedent(inspect.getsource(function.__code__))  # not of what functools.wraps says that it is
        source = parse_source(Path(function.__code__.co_filename), text)
    except (OSError, TypeError, ValueError):
        return None
    return source if len(source.tree.body) == 1 else None


def _is_plain(function: Function) -> bool:
    """Whether a function has no decorators but ``functools.wraps``."""
    texts = (ast.unparse(decorator) for decorator in function.decorator_list)
    return all(text.partition("(")[0].rpartition(".")[2] == "wraps" for text in texts)


def _with_parameter(source: SourceFile, function: Function, name: str) -> str:
    """A function's text without decorators and with one more parameter in front."""
    start = source.line_starts[function.lineno - 1]
    bracket = source.text.index("(", source.text.index(function.name, start)) + 1
    arguments = function.args
    comma = ", " if arguments.posonlyargs or arguments.args or arguments.vararg or arguments.kwarg else ""
    return (source.text[start:bracket] + name + comma + source.text[bracket:].lstrip()).rstrip("\n")
