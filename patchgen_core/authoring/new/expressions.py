"""What a short function computes, as one expression that can be compared."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from dataclasses import dataclass

from patchgen_core.syntax.nodes import FUNCTIONS, Function, last_name, without_docstring
from patchgen_core.syntax.signatures import read_parameters

_DEPTH = 4


@dataclass(frozen=True)
class ReturnValue:
    """What a function returns, in its parameters without ``self``."""

    node: ast.expr
    parameters: tuple[str, ...]


def methods_of(cls: ast.ClassDef) -> dict[str, Function]:
    """The functions that a class itself defines."""
    return {node.name: node for node in cls.body if isinstance(node, FUNCTIONS)}


def parameters_of(function: Function) -> tuple[str, ...]:
    """The names of a function's parameters that are named, without ``self``."""
    return tuple(p.name for p in read_parameters(function) if p.name != "self")


def return_value(
    function: Function, methods: Mapping[str, Function] | None = None, depth: int = 0
) -> ReturnValue | None:
    """What a function without branches returns; None when it is more than assignments and a return.

    What the class's other ``methods`` compute is put in where they are called; ``depth`` counts the calls around.
    """
    values: dict[str, ast.expr] = {}
    substitution = _Substitution(values, methods or {}, depth)
    for statement in without_docstring(function):
        value = getattr(statement, "value", None)
        value = substitution.visit(copy.deepcopy(value)) if isinstance(value, ast.expr) else None
        if value is not None and isinstance(statement, ast.Return):
            return ReturnValue(value, parameters_of(function))
        if value is None or not _assign(statement, value, values):
            return None
    return None


def _assign(statement: ast.stmt, value: ast.expr, values: dict[str, ast.expr]) -> bool:
    """Note the value that an assignment gives to names; whether it is one, and of names alone."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return False
    if isinstance(target, ast.Name):
        values[target.id] = value
        return True
    if not isinstance(target, ast.Tuple) or not all(isinstance(name, ast.Name) for name in target.elts):
        return False
    if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
        parts: list[ast.expr] = list(value.elts)
    else:
        parts = [ast.Subscript(value, ast.Constant(n), ast.Load()) for n in range(len(target.elts))]
    values.update((name.id, part) for name, part in zip(target.elts, parts) if isinstance(name, ast.Name))
    return True


class _Substitution(ast.NodeTransformer):
    """Puts values in place of names and of attributes of ``self``, and what a method computes in place of its call."""

    def __init__(self, values: Mapping[str, ast.expr], methods: Mapping[str, Function], depth: int) -> None:
        self.values, self.methods, self.depth = values, methods, depth

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.values.get(node.id, node))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        name = own_attribute(node)
        return copy.deepcopy(self.values.get(f"self.{name}", node)) if name else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = own_attribute(node.func)
        method = self.methods.get(name) if name else None
        if method is None or node.keywords or self.depth >= _DEPTH:
            return node
        inner = return_value(method, self.methods, self.depth + 1)
        if inner is None or len(inner.parameters) != len(node.args):
            return node
        arguments = dict(zip(inner.parameters, node.args))
        result: ast.AST = _Substitution(arguments, {}, self.depth).visit(inner.node)
        return result


def own_attribute(node: ast.AST) -> str:
    """``name`` of ``self.name``; empty for anything else."""
    holder = node.value if isinstance(node, ast.Attribute) else None
    return last_name(node) if isinstance(holder, ast.Name) and holder.id == "self" else ""


def normal(node: ast.expr, names: Mapping[str, str] | None = None) -> str:
    """An expression's text, equal for expressions that differ in how the same is written.

    ``x.float()`` is ``x.to(torch.float32)``, ``x.type_as(y)`` is ``x.to(y.dtype)``, and so on; the operands of sums
    and products are sorted. ``names`` are other ones for names, and for attributes written as ``self.name``.
    """
    values = {old: ast.parse(new, mode="eval").body for old, new in (names or {}).items()}
    return ast.unparse(_Normal().visit(_Substitution(values, {}, 0).visit(copy.deepcopy(node))))


class ShortFunctional(ast.NodeTransformer):
    """Writes expressions that are the same in one way."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Write ``F`` for ``torch.nn.functional``."""
        self.generic_visit(node)
        return ast.Name("F", ast.Load()) if ast.unparse(node) in ("torch.nn.functional", "nn.functional") else node


class _Normal(ShortFunctional):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, (ast.Add, ast.Mult)) and ast.unparse(node.right) < ast.unparse(node.left):
            node.left, node.right = node.right, node.left
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        whole = isinstance(node.value, float) and node.value == int(node.value)
        return ast.Constant(int(node.value)) if whole and isinstance(node.value, float) else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute):
            return node
        method, holder = node.func.attr, node.func.value
        if method == "float" and not node.args:
            return _to(holder, ast.parse("torch.float32", mode="eval").body)
        if method == "type_as" and len(node.args) == 1:
            return _to(holder, ast.Attribute(node.args[0], "dtype", ast.Load()))
        if method == "square" and not node.args:
            return ast.Call(ast.Attribute(holder, "pow", ast.Load()), [ast.Constant(2)], [])
        if method in ("to", "mean") and node.keywords and node.keywords[0].arg in ("dtype", "dim"):
            node.args, node.keywords = [*node.args, node.keywords[0].value], node.keywords[1:]
        return node


def _to(holder: ast.expr, dtype: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(holder, "to", ast.Load()), [dtype], [])


def template(text: str) -> str:
    """A form to compare with :func:`normal` texts."""
    return normal(ast.parse(text, mode="eval").body)


def calls(node: ast.AST) -> list[ast.Call]:
    """Every call below a node."""
    return [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]
