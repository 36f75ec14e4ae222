"""A module's syntax tree, what it binds and refers to, and the names that its definitions go by."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Concatenate, ParamSpec, TypeVar

from patchgen_core.syntax.index import ModuleIndex
from patchgen_core.syntax.instances import LocalExpression
from patchgen_core.syntax.nodes import FUNCTIONS, Definition, Function, own_method
from patchgen_core.syntax.scope_analysis import annotations_are_lazy
from patchgen_core.syntax.scopes import Call, NameReference, Scope
from patchgen_core.syntax.source import SourceFile
from patchgen_core.syntax.statement_scopes import StatementScopes, find_eager_scopes, find_lazy_scopes, join_scopes

N = TypeVar("N", bound=ast.AST)
T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True)
class _Kept:
    """An answer about a statement, and what the names meant that it depends on."""

    statement: ast.stmt
    answer: Any
    meanings: dict[str, tuple[object, ...]]


class Module:
    """A module that rules look at; one that was generated has no name."""

    def __init__(self, source: SourceFile, name: str = "") -> None:
        self.source, self.name = source, name
        self._known: dict[tuple[Callable[..., Any], int], Any] = {}
        self._facts: dict[tuple[Callable[..., Any], int], tuple[ast.AST, Any]] = {}
        self._kept: dict[tuple[str, int], _Kept] | None = None

    def renew(self, source: SourceFile) -> None:
        """Be another version of the module, which has taken over statements of this one."""
        statements = set(map(id, source.tree.body))
        nodes = {id(node) for _, node in source.definitions} | statements
        self._facts = {key: fact for key, fact in self._facts.items() if key[1] in nodes}
        self._kept = {key: kept for key, kept in (self._kept or {}).items() if key[1] in statements}
        self._known, self.source = {}, source
        for name in ("_scopes", "_has_lazy_annotations", "calls_by_class"):
            self.__dict__.pop(name, None)

    def release(self) -> None:
        """Forget answers that refer to this module. It then goes as soon as nobody holds it, and not only when Python
        looks for circles."""
        self._known = {}

    def kept(
        self,
        kind: str,
        statement: ast.stmt,
        means: Callable[[str], tuple[object, ...]],
        find: Callable[[], tuple[T, Iterable[str]]],
    ) -> T:
        """What ``find`` finds out about a statement of the top level; it also tells on which names there that depends.

        It is asked anew where one of them does not mean what it meant before; of a module that was never another
        version, always.
        """
        if self._kept is None:
            return find()[0]
        key = (kind, id(statement))
        last = self._kept.get(key)
        if last is None or any(means(name) != meaning for name, meaning in last.meanings.items()):
            answer, names = find()
            last = self._kept[key] = _Kept(statement, answer, {name: means(name) for name in names})
        known: T = last.answer
        return known

    def fact(self, find: Callable[Concatenate[N, P], T], node: N, *given: P.args, **named: P.kwargs) -> T:
        """What a function finds out about a definition or a statement of the top level from its own text alone.

        It is asked for once, also where a later version of the module has the same statement: what it finds must not
        depend on the lines where that stands, nor on what else is ``given``.
        """
        key = (find, id(node))
        fact = self._facts.get(key)
        if fact is None:
            fact = self._facts[key] = (node, find(node, *given, **named))
        answer: T = fact[1]
        return answer

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
    def _scopes(self) -> StatementScopes:
        return join_scopes(self.tree, map(self._part, self.tree.body))

    def calls_in(self, statement: ast.stmt) -> list[Call]:
        """The calls in a statement of the top level."""
        return self._part(statement).calls

    def _part(self, statement: ast.stmt) -> StatementScopes:
        find = find_lazy_scopes if self._has_lazy_annotations else find_eager_scopes
        return self.fact(find, statement)

    @cached_property
    def _has_lazy_annotations(self) -> bool:
        return annotations_are_lazy(self.tree)

    @property
    def calls(self) -> list[Call]:
        """Every call."""
        return self._scopes.calls

    @property
    def calls_by_name(self) -> dict[str, list[Call]]:
        """The calls by the last name of what they call; those of anything else by an empty one."""
        return self._scopes.calls_by_name

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
        return self._scopes.strings

    @property
    def bound(self) -> set[str]:
        """Every name that the top level binds, or a function by ``global``."""
        return set(self._scopes.bound)

    @property
    def rebound(self) -> set[str]:
        """The names of the top level that functions assign by ``global``."""
        return self._scopes.rebound

    @property
    def uses(self) -> dict[str, list[NameReference]]:
        """The references to names of the top level, by name."""
        return self._scopes.uses

    def attributes(self, cls: str) -> dict[str, list[LocalExpression]]:
        """What the methods of a class assign to attributes of ``self``."""
        return self._scopes.attributes.assigned.get(cls, {})

    def growth(self, cls: str) -> dict[str, list[LocalExpression]]:
        """What the methods of a class add to lists that attributes of ``self`` hold, each a ``Growth``."""
        return self._scopes.attributes.growth.get(cls, {})

    def scope_of(self, function: ast.AST) -> Scope | None:
        """The scope of a function of this module."""
        return self._scopes.inner.get(id(function))

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
