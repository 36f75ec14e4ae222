"""Who calls the functions of a generated module: code in it, and the library's generic code by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cached_property

from patchgen_core.checks.contract.instances import Instances, Read
from patchgen_core.checks.contract.library import Library
from patchgen_core.syntax.classes import Class
from patchgen_core.syntax.inference import Callee, Inference
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import called_name, last_name
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
        self.instances = Instances(inference.module, is_own)

    @property
    def _module(self) -> Module:
        return self._inference.module

    @cached_property
    def evident(self) -> list[tuple[Call, tuple[Callee, ...]]]:
        """Every call with what it may call; with nothing where that is not evident."""
        return [evident for statement in self._module.tree.body for evident in self._inference.callees_in(statement)]

    @cached_property
    def _by_callee(self) -> dict[str, list[Call]]:
        calls: dict[str, list[Call]] = {}
        for call, callees in self.evident:
            if self.instances.is_unused(call.owner.partition(".")[0]):
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

    @cached_property
    def _decorating(self) -> set[int]:
        """The ``id`` of what ``@use_kernelized_func`` gets: classes call it as the function itself."""
        classes = (n for nodes in self._module.index.definitions.values() for n in nodes)
        decorators = (d for node in classes for d in node.decorator_list if isinstance(d, ast.Call))
        return {id(a) for d in decorators if called_name(d) == "use_kernelized_func" for a in d.args}

    def are_own(self, dotted: str) -> bool:
        """Whether only the config's own code calls a method: nothing else reads the attributes that hold instances.

        That is not evident for what users and generic code call, and where a class is there for more than to make
        what an attribute holds.
        """
        name, _, method = dotted.partition(".")
        if not method or self.are_outside(dotted):
            return False
        attributes, reads = self.instances.attributes_with(name), self.instances.reads
        others = [read for a in attributes for read in reads.get(a, ()) if read.part in ("", method)]
        others = [read for read in others if not self._is_own(read.owner) and self._may_be(read.node, read, name)]
        by_name = [read for read in reads.get(method, ()) if not self._is_own(read.owner)]
        others += [read for read in by_name if self._may_be(read.node.value, read, name)]
        return bool(attributes) and not others

    def _may_be(self, node: ast.expr, read: Read, name: str) -> bool:
        """Whether an expression may be an instance of a class, of a base of it or of one that derives from it."""
        scope = self._module.scope_of(read.function)
        values = self._inference.values(node, scope) if scope is not None else ()
        cls = self._inference.class_of(name)
        if not values or cls is None:
            return True
        return any(cls in self._inference.bases(v.cls) or v.cls in self._inference.bases(cls) for v in values)

    @cached_property
    def _handed_on(self) -> set[str]:
        """The attributes that upstream's own code takes as values, which it does not call there."""
        functions = (function for owner, function in self.instances.functions() if not self._is_own(owner))
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
        count = next(starred, len(call.node.args))
        if count > place or name in {keyword.arg for keyword in call.node.keywords}:
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


def _values_taken(function: ast.AST) -> set[str]:
    called = {id(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
    return {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute) and id(node) not in called}
