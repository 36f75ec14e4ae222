"""Code that a model never comes to, because of what its ``__init__`` sets for good."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.checks.contract.callers import Callers
from patchgen_core.syntax.classes import Class
from patchgen_core.syntax.inference import Inference
from patchgen_core.syntax.nodes import Function, all_methods, inside, statements
from patchgen_core.syntax.signatures import instance_name


class Unreachable:
    """The statements of a class's methods that never run, as far as flags that are set once and for all tell.

    ``callers`` says who calls a private method, which is never run when all that calls it is not.
    """

    def __init__(self, inference: Inference, callers: Callers, cls: Class) -> None:
        self._callers, self._cls = callers, cls
        self._flags = _constant_flags(inference, cls)
        self._dead: dict[str, set[int]] = {}

    def nodes(self, method: Function) -> set[int]:
        """The ``id`` of each node of a method that is never evaluated."""
        if not self._flags:
            return set()
        if method.name not in self._dead:
            self._dead[method.name] = set()  # one that calls itself
            self._dead[method.name] = (
                {id(node) for node in ast.walk(method)} if self._is_never_called(method) else self._branches(method)
            )
        return self._dead[method.name]

    def _is_never_called(self, method: Function) -> bool:
        dotted = f"{self._cls.name}.{method.name}"
        if not method.name.startswith("_") or method.name.startswith("__") or not self._callers.are_known(dotted):
            return False
        own = {f"{self._cls.name}.{function.name}": function for function in all_methods(self._cls.node)}
        return all(
            call.owner in own and id(call.node) in self.nodes(own[call.owner])
            for call in self._callers.calls_of(dotted)
        )

    def _branches(self, method: Function) -> set[int]:
        truth = _Truth(method, self._flags)
        return {id(node) for statement in truth.dead(method.body) for node in ast.walk(statement)}


def _constant_flags(inference: Inference, cls: Class) -> dict[str, bool]:
    """The attributes that every assignment in a class and its bases gives the same constant, by their truth."""
    values: dict[str, list[ast.expr | None]] = {}
    for base in inference.bases(cls):
        if base is None:
            return {}
        for name, assigned in base.module.attributes(base.name).items():
            values.setdefault(name, []).extend(value for value, _ in assigned)
    flags = {}
    for name, expressions in values.items():
        truths = {bool(value.value) if isinstance(value, ast.Constant) else None for value in expressions}
        truth = truths.pop() if len(truths) == 1 else None
        if truth is not None:
            flags[name] = truth
    return flags


class _Truth:
    """What the conditions of a method come to, when attributes have the truth of ``flags``."""

    def __init__(self, method: Function, flags: dict[str, bool]) -> None:
        self._flags, self._self = flags, instance_name(method)
        arguments = {node.arg for node in ast.walk(method.args) if isinstance(node, ast.arg)}
        stored = [node.id for node in inside(method) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        self._once = {
            statement.targets[0].id: statement.value
            for statement in statements(method.body)
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
            if stored.count(statement.targets[0].id) == 1 and statement.targets[0].id not in arguments
        }

    def of(self, node: ast.expr, depth: int = 8) -> bool | None:
        """Whether an expression is true; None where that is not evident."""
        if not depth:
            return None
        if isinstance(node, ast.Constant):
            return bool(node.value)
        if isinstance(node, ast.Name):
            return self.of(self._once[node.id], depth - 1) if node.id in self._once else None
        if isinstance(node, ast.Attribute):
            is_own = isinstance(node.value, ast.Name) and node.value.id == self._self
            return self._flags.get(node.attr) if is_own else None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            truth = self.of(node.operand, depth - 1)
            return None if truth is None else not truth
        if isinstance(node, ast.BoolOp):
            deciding = isinstance(node.op, ast.Or)
            truths = [self.of(value, depth - 1) for value in node.values]
            return deciding if deciding in truths else None if None in truths else not deciding
        return None

    def dead(self, body: list[ast.stmt]) -> Iterator[ast.AST]:
        """The statements of a block that never run; those behind what always leaves it as well."""
        for place, statement in enumerate(body):
            if isinstance(statement, ast.If):
                truth = self.of(statement.test)
                if truth is not None:
                    yield from statement.orelse if truth else statement.body
                    taken = statement.body if truth else statement.orelse
                    if taken and isinstance(taken[-1], (ast.Return, ast.Raise)):
                        yield from body[place + 1 :]
                        return
                for block in (statement.body, statement.orelse):
                    yield from self.dead(block)
            elif isinstance(statement, (ast.For, ast.While, ast.With)):
                yield from self.dead(statement.body)
