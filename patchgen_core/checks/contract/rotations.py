"""How functions rotate queries and keys: whole heads in halves, or in a way that needs another kernel."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal

from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import Function, called_name
from patchgen_core.syntax.scopes import Scope

Kind = Literal["partial", "interleaved", "sections"]
"""Only a part of each head, neighbouring pairs, or one axis of positions for each section of a head."""

_ROTARY = re.compile(r"rotary|rotat|(?<![a-z])rot(?![a-z])|(?<![a-z])rope(?![a-z])|RoPE|Rope|Rotary", re.ASCII)
_SECTIONS = "mrope_section"
_PARTS = frozenset(["split", "chunk", "narrow", "tensor_split", "split_with_sizes"])
_PAIRS = frozenset(["view", "reshape", "unflatten"])
_DEPTH = 8


def is_rotary(name: str) -> bool:
    """Whether a function's name says that it rotates."""
    return _ROTARY.search(name) is not None


def kinds_of(module: Module, function: Function, seen: frozenset[str] = frozenset()) -> set[Kind]:
    """How a function rotates, and the functions of its module that it calls to do so; empty for the plain way."""
    kinds = _own_kinds(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and is_rotary(node.id) and node.id not in seen:
            called = module.function(node.id)
            if called is not None and called is not function:
                kinds |= kinds_of(module, called, seen | {node.id})
    return kinds


def is_prepared(node: ast.expr, scope: Scope, line: int, depth: int = 0) -> bool:
    """Whether a value that is used in a line was cut or regrouped before, along the dimension of a head."""
    for inner in ast.walk(node):
        if _head_slice(inner) is not None or called_name(inner) in _PARTS or _makes_pairs(inner):
            return True
        if isinstance(inner, ast.Name) and depth < _DEPTH:
            home = scope.find(inner.id)
            for value in _earlier_values(inner.id, home, line) if home is not None else ():
                if home is not None and is_prepared(value, home, value.lineno, depth + 1):
                    return True
    return False


def _earlier_values(name: str, home: Scope, line: int) -> Iterator[ast.expr]:
    for binding in home.bound[name]:
        value = binding.value
        if isinstance(value, (ast.Tuple, ast.List)) and binding.index is not None:
            value = value.elts[binding.index] if binding.index < len(value.elts) else None
        if value is not None and value.lineno < line:
            yield value


def _own_kinds(function: Function) -> set[Kind]:
    kinds: set[Kind] = set()
    rotates = is_rotary(function.name)
    halves = {name for name, value in _local_assignments(function) if _is_half(value)}
    heads: set[tuple[str, str]] = set()
    tails: set[tuple[str, str]] = set()
    for node in ast.walk(function):
        part = _head_slice(node)
        if part is not None and isinstance(node, ast.Subscript):
            holder = ast.dump(node.value)
            if isinstance(part.step, ast.Constant) and part.step.value == 2:
                kinds.add("interleaved")
            elif part.lower is None and part.upper is not None and not _is_half(part.upper, halves):
                if rotates or is_rotary(ast.unparse(part.upper)):
                    heads.add((holder, ast.dump(part.upper)))
            elif part.upper is None and part.lower is not None:
                tails.add((holder, ast.dump(part.lower)))
        elif rotates:
            kinds |= _kinds_of_call(node)
        if _SECTIONS in (getattr(node, "arg", ""), getattr(node, "id", ""), getattr(node, "attr", "")):
            kinds.add("sections")
    if "sections" in kinds:
        kinds.discard("partial")  # what is split are the cosines
    return kinds | ({"partial"} if heads & tails else set())


def _kinds_of_call(node: ast.AST) -> set[Kind]:
    if called_name(node) == "view_as_complex" or _makes_pairs(node):
        return {"interleaved"}
    if isinstance(node, ast.Call) and called_name(node) == "split" and _dimension(node) == -1:
        return {"partial"}
    return set()


def _head_slice(node: ast.AST) -> ast.Slice | None:
    """The slice of a subscript along the last dimension of several, unless it takes all of it."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple) or not node.slice.elts:
        return None
    first, last = node.slice.elts[0], node.slice.elts[-1]
    is_last = (isinstance(first, ast.Constant) and first.value is Ellipsis) or len(node.slice.elts) > 2
    is_part = isinstance(last, ast.Slice) and (last.lower or last.upper or last.step)
    return last if is_last and is_part and isinstance(last, ast.Slice) else None


def _makes_pairs(node: ast.AST) -> bool:
    """Whether a call puts neighbouring entries into a last dimension of two."""
    if not isinstance(node, ast.Call) or called_name(node) not in _PAIRS or not node.args:
        return False
    last = node.args[-1]
    sizes = last.elts if isinstance(last, (ast.Tuple, ast.List)) else node.args
    return len(sizes) > 1 and _number(sizes[-1]) == 2


def _dimension(call: ast.Call) -> int | None:
    named = next((keyword.value for keyword in call.keywords if keyword.arg == "dim"), None)
    return _number(named if named is not None else call.args[-1]) if named is not None or call.args else None


def _number(node: ast.expr) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = _number(node.operand)
        return None if operand is None else -operand
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None


def _local_assignments(function: Function) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _is_half(node: ast.expr, halves: set[str] | frozenset[str] = frozenset()) -> bool:
    """Whether a size is half of something, as in ``rotate_half``."""
    if isinstance(node, ast.Name):
        return node.id in halves
    return isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Div)) and _number(node.right) == 2
