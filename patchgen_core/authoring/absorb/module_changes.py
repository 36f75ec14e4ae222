"""How one version of a module differs from another: definitions, imports and other statements."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from patchgen_core.build.hand_edits import has_same_words
from patchgen_core.syntax.nodes import DEFINITIONS, Definition
from patchgen_core.syntax.source import SourceFile, shift

Kind = Literal["changed", "added", "removed"]


@dataclass(frozen=True)
class DefinitionText:
    """A class, method or function as it stands in a module, moved to column 0.

    Attributes:
        text: from ``def`` or ``class`` on.
        count: how many definitions have its name: a property's setter has the getter's.
    """

    node: Definition
    decorators: tuple[str, ...]
    text: str
    count: int = 1

    @property
    def whole(self) -> str:
        """Its decorators and its text."""
        return "\n".join((*self.decorators, self.text))


@dataclass(frozen=True)
class DefinitionChange:
    """A definition that was changed, added or removed, by its dotted name; ``line`` is that in the newer module, and 1
    for what is not there any more."""

    kind: Kind
    name: str
    old: DefinitionText | None
    new: DefinitionText | None
    line: int = 1


@dataclass(frozen=True)
class StatementChange:
    """A statement beside the definitions that was added or removed."""

    kind: Kind
    statement: ast.stmt
    text: str
    line: int = 1


Change = DefinitionChange | StatementChange


def find_changes(old: SourceFile, new: SourceFile, units: Collection[str] = ()) -> list[Change]:
    """What was changed from one version of a module to another, in the order of the newer one; layout is no change.

    A class is one change when it is one of ``units``, when it was added or removed, and when more of it changed than
    its methods.
    """
    before, after = _definitions(old), _definitions(new)
    changes: list[Change] = []
    classes = [name for name, text in {**before, **after}.items() if isinstance(text.node, ast.ClassDef)]
    whole = {name for name in classes if name in units or _is_whole_change(name, before, after)}
    for name in {**after, **before}:
        owner = name.rpartition(".")[0]
        if owner in whole or (name in classes and name not in whole):
            continue
        one, other = before.get(name), after.get(name)
        if one is None or other is None or not has_same_words(one.whole, other.whole):
            kind: Kind = "added" if one is None else "removed" if other is None else "changed"
            changes.append(DefinitionChange(kind, name, one, other, other.node.lineno if other else 1))
    return [*_statement_changes(old, new), *changes]


def _definitions(source: SourceFile) -> dict[str, DefinitionText]:
    """The classes, their methods, and the functions of a module by their dotted names."""
    texts: dict[str, DefinitionText] = {}
    for name, node in _named(source):
        lines = source.lines[node.lineno - 1 : source.last_line(node)]
        in_strings = {number - node.lineno for number in source.string_lines}
        decorators = tuple(source.segment(decorator) for decorator in node.decorator_list)
        count = texts[name].count + 1 if name in texts else 1
        text = "\n".join(shift(lines, source.indent(node.lineno), "", in_strings))
        texts[name] = DefinitionText(node, tuple(f"@{decorator}" for decorator in decorators), text, count)
    return texts


def _named(source: SourceFile) -> Iterator[tuple[str, Definition]]:
    for node in source.tree.body:
        if isinstance(node, DEFINITIONS):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{s.name}", s) for s in node.body if isinstance(s, DEFINITIONS))


def _is_whole_change(name: str, before: Mapping[str, DefinitionText], after: Mapping[str, DefinitionText]) -> bool:
    """Whether a class was added or removed, or differs in more than what its methods are."""
    one, other = before.get(name), after.get(name)
    if one is None or other is None:
        return True
    if not isinstance(one.node, ast.ClassDef) or not isinstance(other.node, ast.ClassDef):
        return True
    return one.decorators != other.decorators or _frame(one.node) != _frame(other.node)


def _frame(node: ast.ClassDef) -> str:
    """A class without its methods."""
    rest = [statement for statement in node.body if not isinstance(statement, DEFINITIONS)]
    return ast.dump(ast.ClassDef(**{**dict(ast.iter_fields(node)), "body": rest, "decorator_list": []}))


def _statement_changes(old: SourceFile, new: SourceFile) -> Iterator[StatementChange]:
    before, after = _statements(old), _statements(new)
    for text, node in after.items():
        if text not in before:
            yield StatementChange("added", node, new.segment(node), node.lineno)
    for text, node in before.items():
        if text not in after:
            yield StatementChange("removed", node, old.segment(node))


def _statements(source: SourceFile) -> dict[str, ast.stmt]:
    """The statements of a module beside its definitions; of imports, one for each name."""
    statements: dict[str, ast.stmt] = {}
    for node in source.tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                single = type(node)(**{**dict(ast.iter_fields(node)), "names": [alias]})
                statements[ast.unparse(single)] = ast.copy_location(single, node)
        elif not isinstance(node, DEFINITIONS):
            statements[ast.dump(node)] = node
    return statements
