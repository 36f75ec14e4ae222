"""Where upstream defines what a finding is about, which need not be the module that is patched."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.checks.contract.library import absolute_module, package_of
from patchgen_core.syntax.source import SourceFile

Read = Callable[[str], tuple[str, SourceFile | None]]
"""The path of a module and its text, by its dotted name; None for one that is not there."""


@dataclass(frozen=True)
class DefinitionPlace:
    """The first and last line of a definition, and the path of its file."""

    path: str
    lines: tuple[int, int]


def find_definition(read: Read, module: str, name: str, seen: frozenset[str] = frozenset()) -> DefinitionPlace | None:
    """What a module calls so: a definition of its own, of a module that the name begins with, one that it imports, or
    a method that a class of it inherits; None for several of the name."""
    path, source = read(module)
    if source is None or f"{module} {name}" in seen:
        return None
    nodes = [node for other, node in source.definitions if other == name]
    if nodes:
        lines = source.first_line(nodes[0]), source.last_line(nodes[0])
        return DefinitionPlace(path, lines) if len(nodes) == 1 else None
    seen |= {f"{module} {name}"}
    others = (find_definition(read, *other, seen) for other in _others(read, module, name))
    return next((place for place in others if place is not None), None)


def find_owner(read: Read, module: str, name: str) -> DefinitionPlace | None:
    """The class whose attribute a name is; None for another name."""
    owner = name.rpartition(".")[0]
    return find_definition(read, module, owner) if owner else None


def _others(read: Read, module: str, name: str) -> Iterator[tuple[str, str]]:
    """What a name that a module does not define may be: in which module, and under which name there."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 1, -1):
        yield ".".join(parts[:length]), ".".join(parts[length:])
    path, source = read(module)
    if source is None:
        return
    head, _, rest = name.partition(".")
    for statement, alias in source.index.imports.get(head, ()):
        if isinstance(statement, ast.ImportFrom):
            other = absolute_module(statement, package_of(module, Path(path)))
            yield other, ".".join(filter(None, [alias.name, rest]))
    for cls in source.index.classes.get(head, ()) if rest else ():
        for base in cls.bases:
            yield module, f"{ast.unparse(base)}.{rest}"
