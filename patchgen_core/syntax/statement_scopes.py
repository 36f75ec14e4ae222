"""The scopes of a module, found statement by statement: those of a statement hold in any module that has it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from patchgen_core.syntax.instances import ClassAttributes, InstanceAttributes, find_instance_attributes
from patchgen_core.syntax.nodes import last_name
from patchgen_core.syntax.scope_analysis import find_scopes
from patchgen_core.syntax.scopes import Call, NameBinding, NameReference, Scope

_T = TypeVar("_T")


@dataclass(frozen=True)
class StatementScopes:
    """What is known of one statement of a module's top level, or of all.

    Attributes:
        top: the scope of the top level.
        bound: what it binds there.
        inner: the scopes below it, by the ``id`` of their nodes.
        uses: its references to names of the top level, by name.
        calls: its calls.
        calls_by_name: the calls by the last name of what they call; those of anything else by an empty one.
        strings: string literals that are neither docstrings nor annotations, each with its owner.
        rebound: names of the top level that functions assign.
    """

    top: Scope
    bound: dict[str, list[NameBinding]]
    inner: dict[int, Scope] = field(default_factory=dict)
    attributes: InstanceAttributes = field(default_factory=InstanceAttributes)
    uses: dict[str, list[NameReference]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    calls_by_name: dict[str, list[Call]] = field(default_factory=dict)
    strings: list[tuple[ast.Constant, str]] = field(default_factory=list)
    rebound: set[str] = field(default_factory=set)


def find_lazy_scopes(statement: ast.stmt) -> StatementScopes:
    """The scopes of a statement in a module whose annotations are not evaluated."""
    return _find(statement, has_lazy_annotations=True)


def find_eager_scopes(statement: ast.stmt) -> StatementScopes:
    """The scopes of a statement in a module whose annotations are evaluated."""
    return _find(statement, has_lazy_annotations=False)


def _find(statement: ast.stmt, has_lazy_annotations: bool) -> StatementScopes:
    scopes = find_scopes(ast.Module([statement], []), has_lazy_annotations)
    uses: dict[str, list[NameReference]] = {}
    for reference in scopes.references:
        for name in reference.names:
            if reference.is_global(name):
                uses.setdefault(name, []).append(reference)
    by_name: dict[str, list[Call]] = {}
    for call in scopes.calls:
        by_name.setdefault(last_name(call.node.func), []).append(call)
    attributes, top = find_instance_attributes(scopes), scopes.top
    more = (scopes.inner, attributes, uses, scopes.calls, by_name, scopes.strings, scopes.rebound)
    return StatementScopes(top, top.bound, *more)


def join_scopes(tree: ast.Module, parts: Iterable[StatementScopes]) -> StatementScopes:
    """What is known of a module, given that of each of its statements in their order.

    The top level of the parts binds from then on what the module does.
    """
    top = Scope(tree, "module")
    whole = StatementScopes(top, top.bound)
    for part in parts:
        whole.inner.update(part.inner)
        whole.calls.extend(part.calls)
        whole.strings.extend(part.strings)
        whole.rebound.update(part.rebound)
        _extend(whole.bound, part.bound)
        _extend(whole.uses, part.uses)
        _extend(whole.calls_by_name, part.calls_by_name)
        _extend_classes(whole.attributes.assigned, part.attributes.assigned)
        _extend_classes(whole.attributes.growth, part.attributes.growth)
        part.top.bound = top.bound
    return whole


def _extend(lists: dict[str, list[_T]], more: dict[str, list[_T]]) -> None:
    for name, entries in more.items():
        lists.setdefault(name, []).extend(entries)


def _extend_classes(attributes: ClassAttributes, more: ClassAttributes) -> None:
    for name, of_class in more.items():
        _extend(attributes.setdefault(name, {}), of_class)
