"""Who calls the functions of a generated module: code in it, and the library's generic code by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cached_property

from patchgen_core.checks.contract.library import Library
from patchgen_core.syntax.classes import Class
from patchgen_core.syntax.inference import Callee, Inference
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import FUNCTIONS, Function, all_methods, called_name, last_name
from patchgen_core.syntax.scopes import Call

_HEAD = re.compile(r"For[A-Z]")


class Callers:
    """The calls of a generated module by what they evidently call.

    Args:
        inference: what the module's expressions are.
        library: where upstream's generic code, such as ``generate()``, is read.
        package: upstream's package.
        is_own: whether a class, method or function is the config's own, so that its author knows its signature.
    """

    def __init__(self, inference: Inference, library: Library, package: str, is_own: Callable[[str], bool]) -> None:
        self._inference, self._library, self._package, self._is_own = inference, library, package, is_own

    @property
    def _module(self) -> Module:
        return self._inference.module

    @cached_property
    def evident(self) -> list[tuple[Call, tuple[Callee, ...]]]:
        """Every call with what it may call; with nothing where that is not evident."""
        return [(call, self._inference.callees(call.node, call.scope)) for call in self._module.calls]

    @cached_property
    def _by_callee(self) -> dict[str, list[Call]]:
        calls: dict[str, list[Call]] = {}
        for call, callees in self.evident:
            if self.is_unused(call.owner.partition(".")[0]):
                continue
            for dotted in {callee.dotted for callee in callees if callee.module is self._module}:
                calls.setdefault(dotted, []).append(call)
        return calls

    def calls_of(self, dotted: str) -> list[Call]:
        """The calls that evidently call ``function`` or ``Class.method``, and those of a method of that name."""
        method = dotted.partition(".")[2]
        calls = self._by_callee.get(dotted, [])
        if method in ("", "forward", "__init__"):
            return calls
        return [*calls, *(call for call, callees in self.evident if not callees and called_name(call.node) == method)]

    def are_known(self, dotted: str) -> bool:
        """Whether all callers of a function stand in the module.

        The forward of a model with a head is called by trainers and by ``generate()``, and so is the model made; what
        is handed on as a value, or called by name in upstream's generic code, may be called by anyone.
        """
        if not self._by_callee.get(dotted):
            return False
        name, _, method = dotted.partition(".")
        if not method:
            called = {id(call.node.func) for call in self._by_callee[dotted]} | self._decorating
            return all(id(use.node) in called or use.moment == "annotation" for use in self._module.uses.get(name, ()))
        return not self.are_outside(dotted)

    def are_outside(self, dotted: str) -> bool:
        """Whether code outside of the module evidently calls a function, or may, which is handed on as a value."""
        name, _, method = dotted.partition(".")
        if method in ("forward", "__init__"):
            return self.is_for_users(name)
        return method in self._handed_on or method in self._library.called_names(self._package)

    def is_unused(self, name: str) -> bool:
        """Whether nothing in the module refers to a class or function of upstream's, nor exports it."""
        uses = self._module.uses.get(name, ())
        if not name or self._is_own(name) or any(self._makers.get(id(use.node)) != "" for use in uses):
            return False
        return name not in self._exported

    @cached_property
    def _decorating(self) -> set[int]:
        """The ``id`` of what ``@use_kernelized_func`` gets: classes call it as the function itself."""
        classes = (n for nodes in self._module.index.definitions.values() for n in nodes)
        decorators = (d for node in classes for d in node.decorator_list if isinstance(d, ast.Call))
        return {id(a) for d in decorators if called_name(d) == "use_kernelized_func" for a in d.args}

    @cached_property
    def _exported(self) -> set[str]:
        """The strings of ``__all__``; every definition where there is none."""
        names = set()
        for statement in self._module.index.assigned.get("__all__", ()):
            names |= {n.value for n in ast.walk(statement) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        return names or set(self._module.index.definitions)

    def are_own(self, dotted: str) -> bool:
        """Whether only the config's own code calls a method: nothing else reads the attributes that hold instances.

        That is not evident for what users and generic code call, and where a class is there for more than to make
        what an attribute holds.
        """
        name, _, method = dotted.partition(".")
        if not method or self.are_outside(dotted):
            return False
        held, readers = self._attributes_with(name), self._readers
        callers = {owner for attribute in held for owner, part in readers.get(attribute, ()) if part in ("", method)}
        callers |= {owner for owner, _ in readers.get(method, ())}  # through self and super()
        return bool(held) and all(self._is_own(owner) for owner in callers)

    def _attributes_with(self, name: str) -> set[str]:
        """The attributes that instances of a class are assigned to; none where it is used in another way as well."""
        attributes, held = set(), self._makers
        for use in self._module.uses.get(name, ()):
            attribute = held.get(id(use.node))
            if attribute is None and use.moment != "annotation":
                return set()
            attributes.add(attribute or "")
        return attributes - {""}

    @cached_property
    def _makers(self) -> dict[int, str]:
        """The attributes that get what calls make, by the ``id`` of the name that is called.

        What only looks at a class, such as ``isinstance`` or a model's ``_can_record_outputs``, is under no name.
        """
        makers: dict[int, str] = {}
        for node in ast.walk(self._module.tree):
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(node, ast.Assign) and isinstance(target, ast.Attribute):
                calls = (call for call in ast.walk(node.value) if isinstance(call, ast.Call))
                makers |= {id(_maker(call)): target.attr for call in calls}
            is_look = isinstance(node, ast.Call) and called_name(node) == "isinstance"
            is_unread = isinstance(target, ast.Name) and target.id.isupper() and not self._module.uses.get(target.id)
            if is_look or is_unread or (target is not None and last_name(target) == "_can_record_outputs"):
                makers |= {id(inner): "" for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        return makers

    @cached_property
    def _readers(self) -> dict[str, set[tuple[str, str]]]:
        """Who reads each attribute, and which attribute of it alone; empty where it is called or handed on."""
        readers: dict[str, set[tuple[str, str]]] = {}
        for owner, function in self._functions():
            attributes = [node for node in ast.walk(function) if isinstance(node, ast.Attribute)]
            calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
            kept = {id(argument) for call in calls if called_name(call) == "len" for argument in call.args}
            items = [n for n in ast.walk(function) if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
            kept |= {id(_whole(item)) for item in items}
            parts = {id(_whole(node.value)): node.attr for node in attributes}
            for node in attributes if not self.is_unused(owner.partition(".")[0]) else ():
                if isinstance(node.ctx, ast.Load) and id(node) not in kept:
                    readers.setdefault(node.attr, set()).add((owner, parts.get(id(node), "")))
        return readers

    def _functions(self) -> Iterator[tuple[str, Function]]:
        """Every function and method of the module by its dotted name."""
        for name, definitions in self._module.index.definitions.items():
            for node in definitions:
                if isinstance(node, FUNCTIONS):
                    yield name, node
                else:
                    yield from ((f"{name}.{method.name}", method) for method in all_methods(node))

    @cached_property
    def _handed_on(self) -> set[str]:
        """The attributes that upstream's own code takes as values, which it does not call there."""
        functions = (function for owner, function in self._functions() if not self._is_own(owner))
        return set().union(*map(_values_taken, functions))

    def supplies(self, call: Call, place: int, name: str, depth: int = 3) -> bool:
        """Whether a call passes a parameter by its place or name, or has it in the ``**kwargs`` it was given.

        Args:
            call: a call that may have stars.
            place: how many arguments come before it by position.
            name: the parameter.
            depth: how many callers to go back.
        """
        starred = (n for n, argument in enumerate(call.node.args) if isinstance(argument, ast.Starred))
        given = next(starred, len(call.node.args))
        if given > place or name in {keyword.arg for keyword in call.node.keywords}:
            return True
        function = self._module.function(call.owner)
        kwargs = function.args.kwarg.arg if function is not None and function.args.kwarg is not None else ""
        hands_on = any(k.arg is None and last_name(k.value) == kwargs for k in call.node.keywords)
        if not kwargs or not hands_on or not depth or not self.are_known(call.owner):
            return False
        return all(self.supplies(outer, len(outer.node.args), name, depth - 1) for outer in self.calls_of(call.owner))

    def is_for_users(self, name: str) -> bool:
        """Whether a class is a model that trainers and ``generate()`` call."""
        node = self._module.cls(name)
        line = self._inference.bases(Class(self._module, node)) if node is not None else ()
        bases = {last_name(base) for cls in line if cls is not None for base in cls.node.bases}
        return bool(_HEAD.search(name)) or "GenerationMixin" in bases


def _maker(call: ast.Call) -> ast.expr:
    """The class that a call makes something of: ``Model`` in ``Model(config)`` and ``Model._from_config(config)``."""
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "_from_config"
    return call.func.value if isinstance(call.func, ast.Attribute) and is_method else call.func


def _whole(node: ast.expr) -> ast.expr:
    """What an expression is a part of: ``self.layers`` for ``self.layers[0]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def _values_taken(function: ast.AST) -> set[str]:
    called = {id(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
    return {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute) and id(node) not in called}
