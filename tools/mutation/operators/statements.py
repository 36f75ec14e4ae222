"""Defects of statements: dropped ones, wrong conditions, gradients cut off, sums that forget what they had."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

from tools.mutation.mutant import Edit
from tools.mutation.scope import Scope

_NO_TENSORS = ("config", "device", "dtype", "shape", "None", "eps", "epsilon", "size", "coef", "cache", "outputs")
_NO_GRADIENT = (
    *("pixel_values", "pixel_values_videos", "input_features", "thw", "lengths", "metadata", "in_video"),
    *("ids", "mask", "labels", "index", "idx", "pos", "keep", "key_values", "embeds"),
    *("cos", "sin", "freqs", "emb", "dim", "has_kernel"),
)
_NEW = (
    "tensor",
    "zeros",
    "zeros_like",
    "ones",
    "ones_like",
    "empty",
    "full",
    "arange",
    "nonzero",
    "one_hot",
    "argmax",
    "where",
)


def dropped_statements(scope: Scope) -> Iterator[Edit]:
    """A call, an assignment or a jump that is not there."""
    for node in scope.nodes:
        if isinstance(node, (ast.Expr, ast.AugAssign, ast.Continue, ast.Break)) or _is_reassigned(scope, node):
            assert isinstance(node, ast.stmt)
            yield scope.edit("dropped statement", node, "pass")


def _is_reassigned(scope: Scope, node: ast.AST) -> bool:
    """Whether it assigns to what had a value before."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)):
        return False
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        for name in ast.walk(target):
            if isinstance(name, ast.Name) and scope.variables.get(name.id, node.lineno) >= node.lineno:
                return False
    return True


def changed_assignments(scope: Scope) -> Iterator[Edit]:
    """``=`` for ``+=``, ``-=`` for ``+=``, and an in-place method that does something else."""
    for node in scope.nodes:
        if isinstance(node, ast.AugAssign):
            sign = next((sign for sign in ("+", "-", "*", "/") if f"{sign}=" in scope.text(node)), "")
            for new in ("=", {"+": "-=", "-": "+=", "*": "/=", "/": "*="}.get(sign, "=")):
                yield scope.between("changed assignment", node.target, node.value, f"{sign}=", new)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "index_add_":
            end = scope.source.end(node.func)
            yield Edit("changed assignment", end - len("index_add_"), end, "index_copy_", node)
            yield Edit("changed assignment", end - 1, end, "", node)


def wrong_conditions(scope: Scope) -> Iterator[Edit]:
    """A condition negated, always true, never true, or without one of its parts."""
    for node in scope.nodes:
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            test = node.test
            if isinstance(test, ast.Constant):
                continue
            for new in (f"not ({scope.text(test)})", "True", "False"):
                yield scope.edit("wrong condition", test, new)
            if isinstance(test, ast.BoolOp):
                for part in test.values:
                    kept = [scope.text(one) for one in test.values if one is not part]
                    yield scope.edit("wrong condition", test, f"({' and '.join(kept)})")


def cut_gradients(scope: Scope) -> Iterator[Edit]:
    """``.detach()`` on what is computed on the way, or a statement under ``torch.no_grad()``."""
    for node in scope.nodes:
        if scope.runs_without_gradient(node):
            continue
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            is_output = "Output" in ast.unparse(getattr(node, "annotation", node.value))
            yield from [] if is_output else _detached(scope, node.value)
            is_computed = any(isinstance(one, (ast.Call, ast.BinOp)) for one in ast.walk(node.value))
            is_computed &= not _target(node).endswith(_NO_GRADIENT)
            yield from _without_gradient(scope, node) if is_computed and _has_gradient(node.value) else []
        elif isinstance(node, ast.Return) and node.value is not None:
            for value in node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]:
                yield from _detached(scope, value)
        elif isinstance(node, ast.Expr):
            yield from _without_gradient(scope, node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            for value in (node.left, node.right):
                yield from _detached(scope, value)
        elif isinstance(node, ast.Call) and _takes_tensors(node):
            for value in [*node.args, *(k.value for k in node.keywords if k.arg is not None)]:
                yield from _detached(scope, value)


def _target(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> str:
    return ast.unparse(node.targets[-1] if isinstance(node, ast.Assign) else node.target)


def _takes_tensors(call: ast.Call) -> bool:
    callee = ast.unparse(call.func)
    return callee.startswith(("self.", "slot", "torch.nn.functional.", "nn.functional.")) or callee.endswith("add_")


def _detached(scope: Scope, node: ast.expr) -> Iterator[Edit]:
    """A value that may be a tensor, without its gradient."""
    if _has_gradient(node):
        yield scope.append("cut gradient", node, ".detach()")


def _has_gradient(node: ast.expr) -> bool:
    """Whether it may be a floating tensor that a gradient comes to, as far as its names tell."""
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.BinOp)):
        return False
    text = ast.unparse(node)
    made = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    if text.startswith("kwargs.") or "Output(" in text or made in _NEW:
        return False
    if not isinstance(node, ast.Call) and text.endswith(_NO_TENSORS):
        return False
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - {"torch", "nn"}
    return not names or not all(name.endswith(_NO_GRADIENT) for name in names)


def _without_gradient(scope: Scope, node: ast.stmt) -> Iterator[Edit]:
    first = scope.source.line_starts[node.lineno - 1]
    end = scope.source.end(node)
    indent = scope.source.indent(node.lineno)
    body = textwrap.indent(scope.source.text[first:end], "    ")
    yield Edit("cut gradient", first, end, f"{indent}with torch.no_grad():\n{body}", node)
