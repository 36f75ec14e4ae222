"""The scopes of a module and what stands in them: names, references and calls."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Literal

Moment = Literal["import", "call", "annotation"]
"""When a reference is evaluated: while the module is imported, when a function runs, or as an annotation."""


class Growth(ast.List):
    """The items that a list gets by ``blocks.append(...)`` or ``blocks[0] = ...``, as a list of their own."""


@dataclass(frozen=True)
class Use:
    """A reference to a name that no function or class between it and the module's top level binds.

    Attributes:
        name: the name.
        node: where it stands; a string for an annotation in quotes.
        owner: the class, method or function it is in, as ``Class.method``; empty at the top level.
        moment: when it is evaluated.
    """

    name: str
    node: ast.expr
    owner: str
    moment: Moment


@dataclass(frozen=True)
class Binding:
    """How a local name gets a value.

    Attributes:
        value: the expression it comes from; None when that cannot be told.
        is_item: whether it is an item of the value, as in a loop.
        index: its place in a tuple that the value or item is unpacked from.
    """

    value: ast.expr | None = None
    is_item: bool = False
    index: int | None = None


@dataclass
class Scope:
    """The names of a function, class body or comprehension; of the module when ``parent`` is None.

    Attributes:
        node: what it is the scope of.
        parent: the scope around it.
        cls: name of the class that ``self`` is an instance of; empty outside of methods.
        self_name: what a method calls its instance.
        owner: the class, method or function, as ``Class.method``.
        bound: local names and how they get their values.
    """

    node: ast.AST
    parent: Scope | None = None
    cls: str = ""
    self_name: str = ""
    owner: str = ""
    bound: dict[str, list[Binding]] = field(default_factory=dict)
    globals: set[str] = field(default_factory=set)
    pending: list[Use] = field(default_factory=list)

    @property
    def is_method(self) -> bool:
        """Whether it is the scope of a method itself, not of what is nested in one."""
        return self.parent is not None and isinstance(self.parent.node, ast.ClassDef)

    def find(self, name: str) -> Scope | None:
        """The scope that binds a name as code in this scope sees it; None when only the module may."""
        scope: Scope | None = self
        while scope is not None and scope.parent is not None:
            is_visible = scope is self or not isinstance(scope.node, ast.ClassDef)
            if is_visible and name in scope.bound and name not in scope.globals:
                return scope
            scope = scope.parent
        return None


@dataclass(frozen=True)
class Call:
    """A call and the scope it stands in."""

    node: ast.Call
    scope: Scope

    @property
    def owner(self) -> str:
        """The class, method or function it is in."""
        return self.scope.owner
