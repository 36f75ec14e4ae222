"""A module's syntax tree, what it binds and refers to, and the names that its definitions go by."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

from patchgen_core.syntax.index import ModuleIndex
from patchgen_core.syntax.instances import InstanceAttributes, LocalExpression, find_instance_attributes
from patchgen_core.syntax.nodes import FUNCTIONS, Definition, Function, own_method
from patchgen_core.syntax.scope_analysis import find_scopes
from patchgen_core.syntax.scopes import Call, NameReference, Scope, Scopes
from patchgen_core.syntax.source import SourceFile

N = TypeVar("N", bound=ast.AST)
T = TypeVar("T")


class Module:
    """A module that rules look at; one that was generated has no name."""

    def __init__(self, source: SourceFile, name: str = "") -> None:
        self.source, self.name = source, name
        self._known: dict[tuple[Callable[..., Any], int], Any] = {}

    def once(self, find: Callable[[Module, N], T], node: N) -> T:
        """What a function finds out about a node of the tree, which it is asked for once."""
        key = (find, id(node))
        if key not in self._known:
            self._known[key] = find(self, node)
        answer: T = self._known[key]
        return answer

    @property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return self.source.tree

    @property
    def index(self) -> ModuleIndex:
        """What the top level binds."""
        return self.source.index

    @cached_property
    def _analysis(self) -> tuple[Scopes, InstanceAttributes]:
        scopes = find_scopes(self.tree)
        return scopes, find_instance_attributes(scopes)

    @property
    def calls(self) -> list[Call]:
        """Every call."""
        return self._analysis[0].calls

    @cached_property
    def calls_by_class(self) -> dict[str, list[Call]]:
        """The calls in methods, by the class."""
        calls: dict[str, list[Call]] = {}
        for call in self.calls:
            name, _, method = call.owner.partition(".")
            if method:
                calls.setdefault(name, []).append(call)
        return calls

    @property
    def strings(self) -> list[tuple[ast.Constant, str]]:
        """String literals that are neither docstrings nor annotations, each with its owner."""
        return self._analysis[0].strings

    @property
    def bound(self) -> set[str]:
        """Every name that the top level binds, or a function by ``global``."""
        return set(self._analysis[0].top.bound)

    @property
    def rebound(self) -> set[str]:
        """The names of the top level that functions assign by ``global``."""
        return self._analysis[0].rebound

    @cached_property
    def uses(self) -> dict[str, list[NameReference]]:
        """The references to names of the top level, by name."""
        uses: dict[str, list[NameReference]] = {}
        for reference in self._analysis[0].references:
            for name in reference.names:
                if reference.is_global(name):
                    uses.setdefault(name, []).append(reference)
        return uses

    def attributes(self, cls: str) -> dict[str, list[LocalExpression]]:
        """What the methods of a class assign to attributes of ``self``."""
        return self._analysis[1].assigned.get(cls, {})

    def growth(self, cls: str) -> dict[str, list[LocalExpression]]:
        """What the methods of a class add to lists that attributes of ``self`` hold, each a ``Growth``."""
        return self._analysis[1].growth.get(cls, {})

    def scope_of(self, function: ast.AST) -> Scope | None:
        """The scope of a function of this module."""
        return self._analysis[0].inner.get(id(function))

    def definition(self, name: str) -> Definition | None:
        """The one top-level class or function of a name; None when there is none or branches define several."""
        definitions = self.index.definitions.get(name, [])
        elsewhere = name in self.index.imports or name in self.index.assigned
        return definitions[0] if len(definitions) == 1 and not elsewhere else None

    def cls(self, name: str) -> ast.ClassDef | None:
        """The one top-level class of a name."""
        definition = self.definition(name)
        return definition if isinstance(definition, ast.ClassDef) else None

    def function(self, dotted: str) -> Function | None:
        """The one definition of ``function`` or ``Class.method``; a property's getter."""
        name, _, method = dotted.partition(".")
        definition = self.definition(name)
        if not method:
            return definition if isinstance(definition, FUNCTIONS) else None
        return own_method(definition, method) if isinstance(definition, ast.ClassDef) else None
