"""The scopes of a syntax tree, and what stands in them: names, references, calls and assignments."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["module", "function", "class", "comprehension", "annotation"]
Moment = Literal["import", "call", "annotation"]
"""When a reference is evaluated: while the module is imported, when a function runs, or as an annotation."""


class Growth(ast.List):
    """The items that a list gets by ``blocks.append(...)`` or ``blocks[0] = ...``, as a list of their own."""


@dataclass(slots=True, eq=False)  # not frozen: a module has thousands of them
class NameBinding:
    """How a name gets a value.

    Attributes:
        value: the expression it comes from; None when that cannot be told.
        is_item: whether it is an item of the value, as in a loop.
        index: its place in a tuple that the value or item is unpacked from.
    """

    value: ast.expr | None = None
    is_item: bool = False
    index: int | None = None

    @property
    def is_value(self) -> bool:
        """Whether the name is the value itself, neither an item nor a part of it."""
        return self.index is None and not self.is_item


@dataclass(eq=False)
class Scope:
    """A part of a program that has names of its own.

    Attributes:
        node: what makes it: a definition, a lambda, a comprehension, or the type parameters of a definition.
        kind: ``annotation`` is the scope of type parameters and of a ``type`` statement.
        parent: the scope around it; None for the module's.
        owner: the class, method or function it is in, as ``Class.method``; empty at the top level.
        cls: name of the class that ``self_name`` is an instance of; empty outside of methods.
        outer_names: names that it declares with ``nonlocal``.
        global_names: names that it declares with ``global``; what it binds of these, the module's scope has.
    """

    node: ast.AST
    kind: Kind
    parent: Scope | None = None
    owner: str = ""
    cls: str = ""
    self_name: str = ""
    bound: dict[str, list[NameBinding]] = field(default_factory=dict)
    outer_names: set[str] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)

    @property
    def outer(self) -> Scope | None:
        """The scope around it, those of type parameters left out."""
        outer = self.parent
        while outer is not None and outer.kind == "annotation":
            outer = outer.parent
        return outer

    @property
    def is_method(self) -> bool:
        """Whether it is the scope of a method itself, not of what is nested in one."""
        return self.outer is not None and self.outer.kind == "class"

    def find(self, name: str) -> Scope | None:
        """The function, class or comprehension whose name this is, when it is used here; None for a global name."""
        scope, sees_class = self, True
        while scope.parent is not None:
            if scope.kind != "class" or sees_class:
                if name in scope.global_names:
                    return None
                if name in scope.bound and name not in scope.outer_names:
                    return scope
            sees_class = sees_class and scope.kind == "annotation"
            scope = scope.parent
        return None


@dataclass(slots=True, eq=False)  # not frozen: a module has thousands of them
class NameReference:
    """A name that is read, or a string in an annotation.

    Attributes:
        owner: the class, method or function it is in, as ``Class.method``; empty at the top level.
        moment: when it is evaluated.
        is_ahead: whether it stands in a class body that has not bound the name by then, and so reads a global one.
    """

    node: ast.Name | ast.Constant
    scope: Scope
    owner: str
    moment: Moment
    is_ahead: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The name, or those in the string of an annotation."""
        if isinstance(self.node, ast.Name):
            return (self.node.id,)
        try:
            tree = ast.parse(str(self.node.value).strip(), mode="eval")
        except (SyntaxError, ValueError):
            return ()
        return tuple(dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)))

    def is_global(self, name: str) -> bool:
        """Whether a name means the module's here: no function or class between this and the top level binds it."""
        home = self.scope.find(name)
        return home is None or (self.is_ahead and home is self.scope)


@dataclass(frozen=True)
class Call:
    """A call and the scope it stands in."""

    node: ast.Call
    scope: Scope

    @property
    def owner(self) -> str:
        """The class, method or function it is in."""
        return self.scope.owner


@dataclass(frozen=True)
class Assignment:
    """An assignment to an attribute or item; no ``value`` when that cannot be told."""

    target: ast.expr
    value: ast.expr | None
    scope: Scope


@dataclass(frozen=True)
class Scopes:
    """What a syntax tree binds and refers to, in the order of evaluation.

    Attributes:
        inner: the scopes below ``top``, by the ``id`` of their nodes.
        references: the names that are read, and the strings of annotations, without those in ``Literal[...]``.
        bindings: each binding of a name, with the scope that it is written in.
        assignments: those to attributes and items.
        strings: string literals that are neither docstrings nor annotations, each with its owner.
        rebound: names of the top level that functions assign.
    """

    top: Scope
    inner: dict[int, Scope] = field(default_factory=dict)
    references: list[NameReference] = field(default_factory=list)
    bindings: list[tuple[str, Scope]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    strings: list[tuple[ast.Constant, str]] = field(default_factory=list)
    rebound: set[str] = field(default_factory=set)
