"""Functions that are a row of assignments and a result, so that a call of one can be written where it stands."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from patchgen_core.syntax.nodes import Function, without_docstring
from patchgen_core.upgrade.merging.flow import find_uses
from patchgen_core.upgrade.verdicts.deprecated_targets import deprecation_warning

_OWN_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ACTING = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Starred)


@dataclass(frozen=True)
class StraightCode:
    """What a function does, whatever it is given: assignments, in this order, and then its result."""

    assignments: tuple[ast.Assign, ...]
    result: ast.expr

    @property
    def names(self) -> set[str]:
        """The names that it reads and does not assign."""
        nodes = [node for part in (*self.assignments, self.result) for node in ast.walk(part)]
        names = [node for node in nodes if isinstance(node, ast.Name)]
        bound = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        return {name.id for name in names} - bound


def read_straight_code(function: Function) -> StraightCode | None:
    """What a function does but for taking entries out of an optional dict, and for warning that it is deprecated; None
    for one that is more than assignments and a result."""
    body = _body(function)[len(_guards(function)) :]
    if not body or isinstance(function, ast.AsyncFunctionDef) or function.decorator_list:
        return None
    *first, last = body
    assignments = [node for node in first if isinstance(node, ast.Assign) and assigned_names(node)]
    if not isinstance(last, ast.Return) or last.value is None or len(assignments) < len(first):
        return None
    if any(isinstance(node, (*_OWN_SCOPES, *_ACTING)) for part in body for node in ast.walk(part)):
        return None
    bound = {name.id for node in assignments for name in assigned_names(node)}
    if bound & {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}:
        return None
    named = ast.unparse(assignments[-1].targets[0]) if assignments else ""
    is_named = isinstance(last.value, ast.Name) and last.value.id == named
    result = assignments.pop().value if is_named else last.value
    return StraightCode(tuple(assignments), result)


def assigned_names(node: ast.stmt) -> list[ast.Name]:
    """The names that an assignment to one name, or to several in a row, is to; none for any other statement."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return []
    target = node.targets[0]
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    names = [part for part in parts if isinstance(part, ast.Name)]
    return names if len(names) == len(parts) else []


def read_optional_entries(function: Function) -> dict[str, tuple[str, ...]]:
    """The parameters that a function does without: dicts, None by default, which may have what it would compute, by
    the keys that it takes out of each. Without these keys, it does what it does without the dict."""
    guards = _guards(function)
    entries: dict[str, tuple[str, ...]] = {}
    for guard in guards:
        parameter, keys = _taken(guard) or ("", ())
        entries[parameter] = (*entries.get(parameter, ()), *keys)
    return entries


def _body(function: Function) -> list[ast.stmt]:
    """The statements of a function behind its docstring and the warning that it is deprecated."""
    body = without_docstring(function)
    return body[1:] if deprecation_warning(function) is not None else body


def _guards(function: Function) -> list[ast.stmt]:
    """The first statements of a function that only take entries out of optional dicts and return them."""
    body = _body(function)
    guards: list[ast.stmt] = []
    for node in body:
        if _taken(node) is None:
            break
        guards.append(node)
    if not guards:
        return []
    inside = {child for guard in guards for child in ast.walk(guard)}
    names = {taken[0] for guard in guards if (taken := _taken(guard)) is not None}
    optional = _none_by_default(function)
    rest = [child for node in body[len(guards) :] for child in ast.walk(node)]
    if not names <= optional or any(isinstance(child, ast.Name) and child.id in names for child in rest):
        return []
    uses = find_uses(function, lambda node: node, ())
    return [] if any(use.source in inside and use.target not in inside for use in uses) else guards


def _none_by_default(function: Function) -> set[str]:
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    pairs = [*zip(reversed(positional), reversed(args.defaults)), *zip(args.kwonlyargs, args.kw_defaults)]
    return {arg.arg for arg, default in pairs if isinstance(default, ast.Constant) and default.value is None}


def _taken(node: ast.stmt) -> tuple[str, tuple[str, ...]] | None:
    """The dict that a statement takes entries out of, and their keys, if it does nothing else where they are missing:
    ``if d is not None and (x := d.pop("x", None)) is not None: return x``, or the same with assignments."""
    if not isinstance(node, ast.If) or node.orelse:
        return None
    if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) and len(node.test.values) == 2:
        name, taken = (_not_none(value) for value in node.test.values)
        if not isinstance(name, ast.Name) or not isinstance(taken, ast.NamedExpr):
            return None
        key = _popped(taken.value, name.id)
        return (name.id, (key,)) if key and _only_returns(node.body) else None
    name = _not_none(node.test)
    *assignments, last = node.body
    if not isinstance(name, ast.Name) or not isinstance(last, ast.If) or last.orelse or not _only_returns(last.body):
        return None
    keys = [_popped(a.value, name.id) for a in assignments if isinstance(a, ast.Assign) and assigned_names(a)]
    bound = {target.id for node in assignments for target in assigned_names(node)}
    tests = last.test.values if isinstance(last.test, ast.BoolOp) else [last.test]
    asked = {tested.id for test in tests if isinstance(tested := _not_none(test), ast.Name)}
    is_all = len(keys) == len(assignments) == len(bound) and all(keys) and len(asked) == len(tests)
    is_and = not isinstance(last.test, ast.BoolOp) or isinstance(last.test.op, ast.And)
    return (name.id, tuple(filter(None, keys))) if is_all and is_and and asked & bound else None


def _only_returns(body: list[ast.stmt]) -> bool:
    return len(body) == 1 and isinstance(body[0], ast.Return)


def _not_none(node: ast.expr) -> ast.expr | None:
    """What a condition says is not None."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.IsNot):
        return None
    other = node.comparators[0]
    return node.left if isinstance(other, ast.Constant) and other.value is None else None


def _popped(node: ast.expr, name: str) -> str:
    """The key of ``name.pop("key", None)``; empty for anything else."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != f"{name}.pop" or node.keywords:
        return ""
    values = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    key = values[0] if len(values) == len(node.args) == 2 and values[1] is None else ""
    return key if isinstance(key, str) else ""


# --- calls ---------------------------------------------------------------------------------------


def bind_arguments(function: Function, call: ast.Call, is_method: bool) -> dict[str, ast.expr] | None:
    """What each parameter of a function stands for in a call, which passes names, attributes and plain values alone;
    None where that cannot be told. A dict that the function does without is left out."""
    args = function.args
    if args.vararg or args.kwarg or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    positional = [argument.arg for argument in (*args.posonlyargs, *args.args)]
    own = [call.func.value] if is_method and isinstance(call.func, ast.Attribute) else []
    given = dict(zip(positional, (*own, *call.args)))
    if len(positional) < len(own) + len(call.args) or any(not keyword.arg for keyword in call.keywords):
        return None
    named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if given.keys() & named.keys() or not named.keys() <= {*positional, *(a.arg for a in args.kwonlyargs)}:
        return None
    optional = read_optional_entries(function)
    if given.keys() & optional.keys():
        return None
    bound = {**dict(_defaults(args)), **given, **named}
    bound = {name: value for name, value in bound.items() if name not in optional}
    missing = {*positional, *(a.arg for a in args.kwonlyargs)} - bound.keys() - optional.keys()
    return bound if not missing and all(_is_plain(value) for value in bound.values()) else None


def _defaults(args: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    positional = [*args.posonlyargs, *args.args]
    pairs = [*zip(reversed(positional), reversed(args.defaults)), *zip(args.kwonlyargs, args.kw_defaults)]
    yield from ((parameter.arg, default) for parameter, default in pairs if isinstance(default, ast.Constant))


def _is_plain(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, (ast.Name, ast.Constant))


def substitute(node: ast.expr, values: Mapping[str, ast.expr]) -> ast.expr:
    """An expression with other expressions in the place of names."""
    result: ast.expr = _Substitution(values).visit(copy.deepcopy(node))
    return result


class _Substitution(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.values[node.id]) if node.id in self.values else node
