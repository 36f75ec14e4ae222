"""Whether a function turns what it is given into a dtype of its own before it computes with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.syntax.inference import Callee, Inference
from patchgen_core.syntax.nodes import Function, inside, last_name
from patchgen_core.syntax.signatures import signature_of

_CASTING = frozenset(["to", "type", "type_as", "float", "half", "bfloat16"])
_SHAPING = frozenset(
    ["view", "reshape", "permute", "transpose", "contiguous", "flatten", "unsqueeze", "squeeze", "expand", "clone"]
)
_ASKING = frozenset(["shape", "device", "dtype", "size", "dim", "ndim", "numel", "is_cuda"])
_DEPTH = 4


def casts_input(inference: Inference, function: Function, name: str, depth: int = _DEPTH) -> bool:
    """Whether every use of a parameter leads to a cast, also in what it is passed on to; views of it are it.

    What follows an assignment of another value to its name is not looked at.
    """
    scope = inference.module.scope_of(function)
    if scope is None or not depth:
        return False
    parents = inference.module.fact(_find_parents, function)
    has_cast = False
    for use in (node for node in inference.module.fact(_find_reads, function) if node.id == name):
        top, parent = _shaped(use, parents)
        if isinstance(parent, ast.Attribute) and parent.attr in _ASKING:
            continue
        if isinstance(parent, ast.Compare):
            continue
        if isinstance(parent, ast.Assign) and [last_name(target) for target in parent.targets] == [name]:
            continue
        is_cast = isinstance(parent, ast.Attribute) and parent.attr in _CASTING and _has_dtype(parents, parent)
        call = parents.get(id(parent)) if isinstance(parent, ast.keyword) else parent
        if not is_cast and isinstance(call, ast.Call):
            callees = inference.callees(call, scope)
            is_cast = bool(callees) and all(_is_cast_in(inference, callee, call, top, depth) for callee in callees)
        if not is_cast:
            return False
        has_cast = True
        if _is_given_anew(parents, top, name):
            return True
    return has_cast


def _find_parents(function: Function) -> dict[int, ast.AST]:
    """What each node of a function's body is a child of, by the ``id`` of the node."""
    return {id(child): node for node in inside(function) for child in ast.iter_child_nodes(node)}


def _find_reads(function: Function) -> list[ast.Name]:
    """Where a function reads names, in order."""
    reads = [node for node in inside(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    return sorted(reads, key=lambda node: (node.lineno, node.col_offset))


def _shaped(node: ast.expr, parents: dict[int, ast.AST]) -> tuple[ast.AST, ast.AST | None]:
    """A value, or the outermost view of it, and what stands around that."""
    top: ast.AST = node
    while True:
        attribute = parents.get(id(top))
        call = parents.get(id(attribute)) if isinstance(attribute, ast.Attribute) else None
        is_view = isinstance(attribute, ast.Attribute) and attribute.attr in _SHAPING
        if not is_view or not isinstance(call, ast.Call) or call.func is not attribute:
            return top, attribute
        top = call


def _has_dtype(parents: dict[int, ast.AST], attribute: ast.Attribute) -> bool:
    """Whether a call such as ``x.to(weight.dtype)`` names a dtype, and not a device alone."""
    call = parents.get(id(attribute))
    if not isinstance(call, ast.Call) or call.func is not attribute:
        return False
    if attribute.attr != "to":
        return True
    arguments: Iterator[ast.expr] = iter([*call.args, *(k.value for k in call.keywords if k.arg == "dtype")])
    return any("dtype" in ast.unparse(a) or last_name(a).startswith(("float", "bfloat")) for a in arguments)


def _is_cast_in(inference: Inference, callee: Callee, call: ast.Call, argument: ast.AST, depth: int) -> bool:
    """Whether what a call calls casts the argument that it is given."""
    function = callee.function
    if function is None or callee.module is not inference.module:
        return False
    if argument in call.args:
        parameters = signature_of(function, "." in callee.dotted).positional
        place = call.args.index(argument)
        name = parameters[place].name if place < len(parameters) else ""
    else:
        name = next((k.arg or "" for k in call.keywords if k.value is argument), "")
    return bool(name) and casts_input(inference, function, name, depth - 1)


def _is_given_anew(parents: dict[int, ast.AST], node: ast.AST, name: str) -> bool:
    """Whether the statement around an expression gives a name what comes of it."""
    while not isinstance(node, ast.stmt):
        node = parents[id(node)]
    return isinstance(node, ast.Assign) and name in [last_name(target) for target in node.targets]
