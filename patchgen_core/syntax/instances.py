"""What instances of a module's classes hold: what methods assign to attributes of ``self``, and add to lists there."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from patchgen_core.syntax.scopes import Call, Growth, NameBinding, Scope, Scopes

LocalExpression = tuple[ast.expr | None, Scope]
"""An expression, None for what cannot be told, and the scope that its names mean something in."""

ClassAttributes = dict[str, dict[str, list[LocalExpression]]]
"""By class and name."""

_ADDING_METHODS = frozenset(["append", "extend", "insert"])


@dataclass(frozen=True)
class InstanceAttributes:
    """What attributes of ``self`` are assigned, and what lists in them get beside what they are made of."""

    assigned: ClassAttributes = field(default_factory=dict)
    growth: ClassAttributes = field(default_factory=dict)


def find_instance_attributes(scopes: Scopes) -> InstanceAttributes:
    """The attributes that methods assign; the bindings of local lists get what is added to these."""
    attributes = InstanceAttributes()
    for assignment in scopes.assignments:
        target, value, scope = assignment.target, assignment.value, assignment.scope
        if isinstance(target, ast.Subscript):
            items = _growth(value if value is not None else target, target)
            _add(attributes.growth, target.value, items, scope)
        else:
            _add(attributes.assigned, target, value, scope)
    for call in scopes.calls:
        function = call.node.func
        if isinstance(function, ast.Attribute) and function.attr in _ADDING_METHODS and call.node.args:
            _add_growth(attributes.growth, function, call)
    return attributes


def _add_growth(growth: ClassAttributes, method: ast.Attribute, call: Call) -> None:
    """Note what a list gets by a call of one of its methods."""
    arguments, holder = call.node.args, method.value
    added = ast.Starred(arguments[0], ast.Load()) if method.attr == "extend" else arguments[-1]
    items = _growth(added, holder)
    home = call.scope.find(holder.id) if isinstance(holder, ast.Name) else None
    if home is not None and isinstance(holder, ast.Name):
        home.bound[holder.id].append(NameBinding(items if home is call.scope else None))
    _add(growth, holder, items, call.scope)


def _growth(item: ast.expr, place: ast.expr) -> Growth:
    return ast.copy_location(Growth([item], ast.Load()), place)


def _add(attributes: ClassAttributes, target: ast.expr, value: ast.expr | None, scope: Scope) -> None:
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and scope.cls:
        name = target.value.id
        home = scope.find(name)
        if home is not None and home.is_method and name == home.self_name:
            attributes.setdefault(home.cls, {}).setdefault(target.attr, []).append((value, scope))
