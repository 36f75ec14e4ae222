"""Where a module keeps the instances of its classes, and who reads them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import FUNCTIONS, Function, all_methods, called_name, last_name


@dataclass(frozen=True)
class Read:
    """An attribute that is read.

    Attributes:
        owner: the function or ``Class.method`` that reads it.
        function: the definition of the owner.
        node: the attribute.
        part: the one attribute of it that is looked at; empty where it is called or handed on.
    """

    owner: str
    function: Function
    node: ast.Attribute
    part: str


class Instances:
    """The attributes that hold instances of a module's classes.

    Args:
        module: the generated module.
        is_own: whether a class, method or function is the config's own.
    """

    def __init__(self, module: Module, is_own: Callable[[str], bool]) -> None:
        self._module, self._is_own = module, is_own

    def is_unused(self, name: str) -> bool:
        """Whether nothing in the module refers to a class or function of upstream's, nor exports it."""
        uses = self._module.uses.get(name, ())
        if not name or self._is_own(name) or any(self._holders.get(id(use.node)) != "" for use in uses):
            return False
        return name not in self._exported

    def attributes_with(self, name: str) -> set[str]:
        """The attributes that instances of a class are assigned to; none where it is used in another way as well."""
        attributes = set()
        for use in self._module.uses.get(name, ()):
            attribute = self._holders.get(id(use.node))
            if attribute is None and use.moment != "annotation":
                return set()
            attributes.add(attribute or "")
        return attributes - {""}

    @cached_property
    def reads(self) -> dict[str, list[Read]]:
        """Who reads each attribute, but for classes that nothing uses."""
        reads: dict[str, list[Read]] = {}
        for owner, function in self.functions():
            if not self.is_unused(owner.partition(".")[0]):
                for node, part in _read_attributes(function):
                    reads.setdefault(node.attr, []).append(Read(owner, function, node, part))
        return reads

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Every function and method of the module by its dotted name."""
        for name, definitions in self._module.index.definitions.items():
            for node in definitions:
                if isinstance(node, FUNCTIONS):
                    yield name, node
                else:
                    yield from ((f"{name}.{method.name}", method) for method in all_methods(node))

    @cached_property
    def _exported(self) -> set[str]:
        """The strings of ``__all__``; every definition where there is none."""
        names = set()
        for statement in self._module.index.assigned.get("__all__", ()):
            names |= {n.value for n in ast.walk(statement) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        return names or set(self._module.index.definitions)

    @cached_property
    def _holders(self) -> dict[int, str]:
        """The attributes that get what calls make, by the ``id`` of the name that is called.

        What only looks at a class, such as ``isinstance`` or a model's ``_can_record_outputs``, is under no name.
        """
        holders: dict[int, str] = {}
        for node in ast.walk(self._module.tree):
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(node, ast.Assign) and isinstance(target, ast.Attribute):
                calls = (call for call in ast.walk(node.value) if isinstance(call, ast.Call))
                holders |= {id(_constructed(call)): target.attr for call in calls}
            is_look = isinstance(node, ast.Call) and called_name(node) == "isinstance"
            is_unread = isinstance(target, ast.Name) and target.id.isupper() and not self._module.uses.get(target.id)
            if is_look or is_unread or (target is not None and last_name(target) == "_can_record_outputs"):
                holders |= {id(inner): "" for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        return holders


def _constructed(call: ast.Call) -> ast.expr:
    """The class that a call makes something of: ``Model`` in ``Model(config)`` and ``Model._from_config(config)``."""
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "_from_config"
    return call.func.value if isinstance(call.func, ast.Attribute) and is_method else call.func


def _read_attributes(function: Function) -> Iterator[tuple[ast.Attribute, str]]:
    """The attributes that a function does more with than count or set items, each with the part it looks at."""
    nodes = list(ast.walk(function))
    counted = {id(a) for n in nodes if isinstance(n, ast.Call) and called_name(n) == "len" for a in n.args}
    items = {id(_whole(n)) for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)}
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    parts = {id(_whole(node.value)): node.attr for node in attributes}
    for node in attributes:
        if isinstance(node.ctx, ast.Load) and id(node) not in counted | items:
            yield node, parts.get(id(node), "")


def _whole(node: ast.expr) -> ast.expr:
    """What an expression is a part of: ``self.layers`` for ``self.layers[0]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node
