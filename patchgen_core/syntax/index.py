"""What a module binds at its top level, and where."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property

from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS, Definition, Function, statements

ImportStatement = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class ModuleIndex:
    """Top-level names by how they are bound, in ``if``, ``try``, ``with`` and loops as well.

    Branches may define the same name more than once.
    """

    definitions: dict[str, list[Definition]] = field(default_factory=dict)
    imports: dict[str, list[tuple[ImportStatement, ast.alias]]] = field(default_factory=dict)
    assigned: dict[str, list[ast.stmt]] = field(default_factory=dict)

    @cached_property
    def classes(self) -> dict[str, list[ast.ClassDef]]:
        """The definitions that are classes."""
        by_name = {n: [d for d in nodes if isinstance(d, ast.ClassDef)] for n, nodes in self.definitions.items()}
        return {name: classes for name, classes in by_name.items() if classes}

    @cached_property
    def functions(self) -> dict[str, list[Function]]:
        """The definitions that are functions."""
        by_name = {n: [d for d in nodes if isinstance(d, FUNCTIONS)] for n, nodes in self.definitions.items()}
        return {name: functions for name, functions in by_name.items() if functions}

    @property
    def names(self) -> set[str]:
        """Every name the module binds."""
        return {*self.definitions, *self.imports, *self.assigned}


def index_module(tree: ast.Module) -> ModuleIndex:
    """Index a module's top level."""
    index = ModuleIndex()
    for statement in statements(tree.body):
        if isinstance(statement, DEFINITIONS):
            index.definitions.setdefault(statement.name, []).append(statement)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                index.imports.setdefault(bound_name(statement, alias), []).append((statement, alias))
        else:
            for name in assigned_names(statement):
                index.assigned.setdefault(name, []).append(statement)
    return index


def bound_name(statement: ImportStatement, alias: ast.alias) -> str:
    """The name that an import binds."""
    if alias.asname:
        return alias.asname
    return alias.name.split(".")[0] if isinstance(statement, ast.Import) else alias.name


def assigned_names(statement: ast.stmt) -> list[str]:
    """The plain names that an assignment binds."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
        targets = [statement.target]
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        targets = [item.optional_vars for item in statement.items if item.optional_vars]
    nodes = (node for target in targets for node in ([target] if isinstance(target, ast.Name) else ast.walk(target)))
    return [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
