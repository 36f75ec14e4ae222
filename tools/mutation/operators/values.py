"""Defects of single values: arithmetic, axes, epsilons, indices, constants, dtypes, reductions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from tools.mutation.mutant import Edit
from tools.mutation.scope import Scope

_SIGNS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
}
_EPSILON = re.compile(r"(?:^|[._])(?:eps|epsilon)\b")
_SWAPPING = ("transpose", "swapaxes", "swapdims")
_ALONG = {"unsqueeze": 0, "squeeze": 0, "chunk": 1, "mean": 0, "sum": 0, "softmax": 0, "split": 1, "index_add_": 0}
"""Methods, and which of their arguments is an axis."""
_AXES = ("dim", "axis", "unsqueeze_dim")
_REDUCTIONS = {
    **{"mean": "sum", "sum": "mean", "amax": "amin", "amin": "amax", "max": "min", "min": "max"},
    **{"rsqrt": "sqrt", "sqrt": "rsqrt", "cos": "sin", "sin": "cos", "exp": "expm1", "cumsum": "cumprod"},
    **{"zeros_like": "ones_like", "ones_like": "zeros_like", "zeros": "ones", "ones": "zeros"},
    **{"greater": "less", "softmax": "log_softmax", "add": "sub", "mul": "div", "triu": "tril", "tril": "triu"},
}
_NARROW, _WIDE = "torch.bfloat16", "torch.float32"


def flipped_signs(scope: Scope) -> Iterator[Edit]:
    """``+`` and ``-``, ``*`` and ``/`` exchanged; a minus dropped; a product negated."""
    for node in scope.nodes:
        if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
            yield scope.between("flipped sign", node.left, node.right, *_SIGNS[type(node.op)])
            if isinstance(node.op, ast.Mult) and not isinstance(scope.parent(node), ast.BinOp):
                yield scope.edit("flipped sign", node, f"-({scope.text(node)})")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not _number(node):
            yield scope.edit("flipped sign", node, f"({scope.text(node.operand)})")


def dropped_parts(scope: Scope) -> Iterator[Edit]:
    """A factor taken out of a product, an addend out of a sum."""
    for node in scope.nodes:
        if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
            kind = "missing addend" if isinstance(node.op, (ast.Add, ast.Sub)) else "dropped factor"
            for dropped, kept in ((node.left, node.right), (node.right, node.left)):
                if isinstance(node.op, (ast.Mult, ast.Add)) or kept is node.left:
                    operator = "wrong epsilon" if _is_epsilon(dropped) else kind
                    yield scope.edit(operator, node, f"({scope.text(kept)})")


def wrong_epsilons(scope: Scope) -> Iterator[Edit]:
    """An epsilon halved, left out, or written down as a number."""
    for node in scope.nodes:
        if isinstance(node, ast.expr) and _is_epsilon(node) and not isinstance(scope.parent(node), ast.Attribute):
            for new in (f"({scope.text(node)} / 2)", "1e-6", "0.0"):
                yield scope.edit("wrong epsilon", node, new)


def _is_epsilon(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float) and 0 < node.value < 1e-2
    is_read = isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)
    return is_read and bool(_EPSILON.search(ast.unparse(node)))


def wrong_axes(scope: Scope) -> Iterator[Edit]:
    """Other axes swapped, permuted or worked along; ``keepdim`` dropped; a tuple of axes one shorter."""
    for node in scope.nodes:
        if not isinstance(node, ast.Call):
            continue
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        is_function = ast.unparse(node.func).startswith(("torch.", "nn.functional."))
        positional = node.args[1:] if is_function else node.args
        if method in _SWAPPING and len(positional) == 2:
            yield from _other_pairs(scope, positional)
        elif method == "permute":
            for first, second in pairwise(positional):
                yield scope.swap("wrong axis", first, second)
        elif method in _ALONG and len(positional) > _ALONG[method]:
            yield from _other_axis(scope, positional[_ALONG[method]])
        for keyword in node.keywords:
            if keyword.arg in _AXES:
                yield from _other_axis(scope, keyword.value)
            elif keyword.arg == "keepdim":
                yield scope.drop("wrong axis", keyword, [*node.args, *node.keywords])


def _other_pairs(scope: Scope, axes: list[ast.expr]) -> Iterator[Edit]:
    pair = tuple(map(ast.unparse, axes))
    for other in (("1", "2"), ("2", "3"), ("-1", "-2")):
        if set(other) != set(pair) and not (set(pair) == {"2", "3"} and other == ("-1", "-2")):
            first, second = (scope.source.start(axes[0]), scope.source.end(axes[1]))
            yield Edit("wrong axis", first, second, ", ".join(other), axes[0])


def _other_axis(scope: Scope, axis: ast.expr) -> Iterator[Edit]:
    if isinstance(axis, ast.Tuple):
        for element in axis.elts:
            kept = [scope.text(one) for one in axis.elts if one is not element]
            yield scope.edit("wrong axis", axis, f"({', '.join(kept)},)")
    else:
        number = _number(axis)
        yield scope.edit("wrong axis", axis, f"{scope.text(axis)} + 1" if number is None else str(_next(number)))


def _next(axis: int) -> int:
    """Another axis, counted from the same side."""
    return axis - 1 if axis < 0 else axis + 1


def _number(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def shifted_indices(scope: Scope) -> Iterator[Edit]:
    """A bound of a slice, or an index, that is off by one."""
    for node in scope.nodes:
        if isinstance(node, ast.Subscript):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            for part in parts:
                yield from _shifted(scope, part)


def _shifted(scope: Scope, part: ast.expr) -> Iterator[Edit]:
    if isinstance(part, ast.Slice):
        for bound in filter(None, (part.lower, part.upper)):
            if not isinstance(bound, ast.Constant) or bound.value is not None:
                yield scope.edit("off by one", bound, _plus(scope, bound, 1))
                yield scope.edit("off by one", bound, _plus(scope, bound, -1))
        if part.lower is None and part.upper is None:
            yield scope.edit("off by one", part, "1:")
    elif isinstance(part, (ast.Name, ast.UnaryOp)) or _number(part) is not None:
        yield scope.edit("off by one", part, _plus(scope, part, -1))
        if _number(part) is not None:
            yield scope.edit("off by one", part, _plus(scope, part, 1))


def _plus(scope: Scope, node: ast.expr, step: int) -> str:
    number = _number(node)
    return str(number + step) if number is not None else f"{scope.text(node)} {'+' if step > 0 else '-'} 1"


def changed_constants(scope: Scope) -> Iterator[Edit]:
    """0 and 1 exchanged, other numbers one more, truth values negated, keys that are asked for misspelt."""
    defaults = {id(node) for node in [*scope.function.args.defaults, *scope.function.args.kw_defaults] if node}
    for node in scope.nodes:
        if not isinstance(node, (ast.Constant, ast.UnaryOp)) or _is_axis_or_index(scope, node):
            continue
        value = _number(node) if isinstance(node, ast.UnaryOp) else node.value
        if isinstance(scope.parent(node) if id(node) not in defaults else None, ast.UnaryOp):
            continue  # the minus before it counts with it
        for new in _other_values(value):
            yield scope.edit("changed constant", node, new)
        if isinstance(value, str) and _is_key(scope, node):
            yield scope.edit("changed constant", node, repr(f"{value}_"))


def _other_values(value: object) -> Iterator[str]:
    if isinstance(value, bool):
        yield str(not value)
    elif isinstance(value, int):
        yield {0: "1", 1: "0"}.get(value, "0" if value < 0 else str(value + 1))
    elif isinstance(value, float) and value >= 1e-2:
        yield str(value * 2)


def _is_axis_or_index(scope: Scope, node: ast.AST) -> bool:
    """Whether another operator changes it."""
    parent = scope.parent(node)
    if isinstance(parent, ast.Tuple):
        parent = scope.parent(parent)
    if isinstance(parent, (ast.Subscript, ast.Slice)):
        return True
    if isinstance(parent, ast.keyword):
        return parent.arg in (*_AXES, "keepdim")
    method = parent.func.attr if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) else ""
    if method in (*_SWAPPING, "permute"):
        return True
    return (
        isinstance(parent, ast.Call) and method in _ALONG and node in parent.args[_ALONG[method] : _ALONG[method] + 1]
    )


def _is_key(scope: Scope, node: ast.AST) -> bool:
    """Whether it names what is taken from a mapping."""
    parent = scope.parent(node)
    return (
        isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Attribute)
        and parent.func.attr in ("get", "pop")
        and parent.args[0] is node
    )


def changed_dtypes(scope: Scope) -> Iterator[Edit]:
    """A cast dropped, or to another dtype."""
    for node in scope.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method, value = node.func.attr, node.func.value
            if method == "float" or (method in ("to", "type") and any(map(_is_dtype, node.args))):
                yield scope.edit("changed dtype", node, scope.text(value))
        if isinstance(node, ast.expr) and _is_dtype(node):
            yield scope.edit("changed dtype", node, _NARROW if ast.unparse(node) != _NARROW else _WIDE)


def _is_dtype(node: ast.AST) -> bool:
    text = ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
    is_read = isinstance(getattr(node, "ctx", None), ast.Load)
    return is_read and (text.endswith("dtype") or bool(re.fullmatch(r"torch\.b?float\d*", text)))


def wrong_reductions(scope: Scope) -> Iterator[Edit]:
    """``mean`` for ``sum``, ``sqrt`` for ``rsqrt``, and such."""
    for node in scope.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            new = _REDUCTIONS.get(node.func.attr)
            if new is not None:
                end = scope.source.end(node.func)
                yield Edit("wrong reduction", end - len(node.func.attr), end, new, node)
            if node.func.attr == "pow":
                yield scope.edit("wrong reduction", node, f"{scope.text(node.func.value)}.abs()")
