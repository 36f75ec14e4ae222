"""Upstream's casts of a value to the dtype that it is added to, where ours makes that value of upstream's."""

from __future__ import annotations

import ast
import re

_DTYPES = re.compile(r"type|float|double|half|fp\d|bf16|cast|precision|int\d|long|\bto\b|bool|quant", re.IGNORECASE)
"""Words of code that may be about the dtype of a value."""


def is_cast_to_operand(node: ast.stmt, name: str) -> bool:
    """Whether all that a statement does with a value is an operation in the dtype of the other operand:
    ``x + value.to(x.dtype)``."""
    casts = [part for part in ast.walk(node) if isinstance(part, ast.BinOp) and _casts(part, name)]
    uses = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    return len(casts) == len(uses) == 1


def _casts(node: ast.BinOp, name: str) -> bool:
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(one, ast.Name) and ast.unparse(other) == f"{name}.to({one.id}.dtype)":
            return True
    return False


def keeps_dtype(node: ast.stmt | None, name: str, old: ast.stmt | None) -> bool:
    """Whether a statement makes a value as its ``old`` text did, with other arguments, or of the one that had its name
    before (``value = pad(value, size)``), and nothing in it is about dtypes."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return False
    is_named = [ast.unparse(target) for target in node.targets] == [name]
    is_of_itself = [ast.unparse(argument) for argument in node.value.args[:1]] == [name]
    return is_named and (is_of_itself or _is_same_call(node, old)) and _DTYPES.search(ast.unparse(node.value)) is None


def _is_same_call(one: ast.Assign, other: ast.stmt | None) -> bool:
    """Whether two assignments are to the same of what the same function makes."""
    nodes = [node for node in (one, other) if isinstance(node, ast.Assign)]
    calls = [ast.dump(node.value.func) for node in nodes if isinstance(node.value, ast.Call)]
    targets = [[*map(ast.dump, node.targets)] for node in nodes]
    return len(calls) == len(targets) == 2 and calls[0] == calls[1] and targets[0] == targets[1]
