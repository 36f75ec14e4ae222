"""The classes, methods and functions of two versions of a module, compared."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from patchgen_core.syntax.forms import PROSE, form, is_same_syntax
from patchgen_core.syntax.nodes import DEFINITIONS, Definition
from patchgen_core.syntax.source import parse_bytes


@dataclass(frozen=True)
class Changes:
    """Classes, methods and functions that differ between two versions of a module."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.added or self.removed)

    def __str__(self) -> str:
        parts = (("changed", self.changed), ("added", self.added), ("removed", self.removed))
        return "; ".join(f"{', '.join(names)} {word}" for word, names in parts if names)

    def without(self, other: Changes) -> Changes:
        """These changes less those of ``other``."""
        gone = {*other.changed, *other.added, *other.removed}

        def rest(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name for name in names if name not in gone)

        return Changes(rest(self.changed), rest(self.added), rest(self.removed))


def compare_definitions(old: str, new: str, tree: ast.Module | None = None) -> Changes:
    """How the classes, methods and functions of two sources differ; nothing when one cannot be parsed.

    ``tree`` is that of the new one, where it is known.
    """
    try:
        before = read_definitions(old)
        after = _definitions(new, tree, _find_wholes(old)) if tree is not None else read_definitions(new)
    except (SyntaxError, ValueError):
        return Changes()
    return _compare(before, after, Definitions.is_same)


def compare_code(before: Mapping[str, Definitions], after: Mapping[str, Definitions], package: str = "") -> Changes:
    """How definitions of two modules of a package differ, apart from their docstrings, annotations, comments, layout,
    order and the spelling of imports."""
    return _compare(before, after, lambda old, new: old.is_same_code(new, package))


def _compare(
    before: Mapping[str, Definitions],
    after: Mapping[str, Definitions],
    is_same: Callable[[Definitions, Definitions], bool],
) -> Changes:
    return Changes(
        tuple(name for name in after if name in before and not is_same(before[name], after[name])),
        tuple(
            name for name in after if name not in before and name.rpartition(".")[0] not in set(after) - set(before)
        ),
        tuple(
            name for name in before if name not in after and name.rpartition(".")[0] not in set(before) - set(after)
        ),
    )


@dataclass
class Definitions:
    """The definitions of one name, a class without its methods: their lines, and their syntax trees.

    ``ranges`` are the lines, counted from 1, of each; for a class those of its methods as well.
    """

    lines: list[str] = field(default_factory=list)
    nodes: list[ast.AST] = field(default_factory=list)
    ranges: list[range] = field(default_factory=list)

    def is_same(self, other: Definitions) -> bool:
        """Whether they are the same code; equal lines are, and are compared faster."""
        return self.lines == other.lines or is_same_syntax(self.nodes, other.nodes)

    def is_same_code(self, other: Definitions, package: str = "") -> bool:
        """Whether they are the same code apart from docstrings and annotations."""

        def forms(definitions: Definitions) -> list[str]:
            return [form(node, package, PROSE) for node in definitions.nodes]

        return self.lines == other.lines or forms(self) == forms(other)


@functools.lru_cache(maxsize=2)
def read_definitions(text: str) -> Mapping[str, Definitions]:
    """The definitions of a module by their dotted names, in its order; a SyntaxError or ValueError for no Python.

    Those of the last two texts are kept: while a config is edited, the checked-in module is compared with many.
    """
    return _definitions(text, parse_bytes(text))


@functools.lru_cache(maxsize=2)
def _find_wholes(text: str) -> Mapping[str, Mapping[str, Definitions]]:
    """The definitions in each class or function of the top level, by its lines; of names that it defines once."""
    lines, tree = _split(text), parse_bytes(text)
    counts = Counter(node.name for node in tree.body if isinstance(node, DEFINITIONS))
    nodes = [node for node in tree.body if isinstance(node, DEFINITIONS) and counts[node.name] == 1]
    return {"\n".join(lines_of(lines, node)): _definitions(text, ast.Module([node], [])) for node in nodes}


def _split(text: str) -> list[str]:
    return re.split(r"\r\n|\r|\n", text) if "\r" in text else text.split("\n")


def _definitions(
    text: str, tree: ast.Module, wholes: Mapping[str, Mapping[str, Definitions]] | None = None
) -> Mapping[str, Definitions]:
    """The definitions of a module; ``wholes`` are those of another text, which has some in the same lines."""
    lines = _split(text)
    definitions: dict[str, Definitions] = {}
    counts = Counter(node.name for node in tree.body if isinstance(node, DEFINITIONS)) if wholes else Counter[str]()
    for node in tree.body:
        if not isinstance(node, DEFINITIONS):
            continue
        whole = wholes.get("\n".join(lines_of(lines, node))) if wholes and counts[node.name] == 1 else None
        if whole is not None:
            definitions |= whole
            continue
        if not isinstance(node, ast.ClassDef):
            definitions[node.name] = Definitions(lines_of(lines, node), [node], [_numbers(node)])
            continue
        own = [s for s in node.body if isinstance(s, DEFINITIONS)]
        rest = ast.ClassDef(**{**dict(ast.iter_fields(node)), "body": [s for s in node.body if s not in own]})
        inside = {number for method in own for number in _numbers(method)}
        own_lines = [lines[n - 1] for n in _numbers(node) if n not in inside]
        definitions[node.name] = Definitions(own_lines, [rest], [_numbers(node)])
        for method in own:
            methods = definitions.setdefault(f"{node.name}.{method.name}", Definitions())
            methods.lines += lines_of(lines, method)
            methods.nodes.append(method)
            methods.ranges.append(_numbers(method))
    return definitions


def lines_of(lines: list[str], node: Definition) -> list[str]:
    """The lines of a definition and of its decorators."""
    numbers = _numbers(node)
    return lines[numbers.start - 1 : numbers.stop - 1]


def _numbers(node: Definition) -> range:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return range(first, (node.end_lineno or node.lineno) + 1)
