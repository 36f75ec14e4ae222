"""A class that takes the place of the class it derives from, as overrides of single methods."""

from __future__ import annotations

import ast
import copy
from dataclasses import replace

from patchgen_core.syntax.nodes import FUNCTIONS, Definition, Function, all_methods
from tools.monkey_patches.names import Defined, Names, Upstream
from tools.monkey_patches.reading import MonkeyPatch


def split_class(
    patch: MonkeyPatch, defined: Defined, names: Names, upstream: Upstream
) -> list[tuple[MonkeyPatch, Defined]]:
    """A patch for each method of such a class, so that upstream's other methods stay in sight; else the patch itself.

    ``super().__init__()`` gives way to what upstream's does. A class that calls other methods of ``super()`` stays.
    """
    original = upstream.definition(patch.module, patch.target)
    node = defined.node
    if not isinstance(node, ast.ClassDef) or not isinstance(original, ast.ClassDef):
        return [(patch, defined)]
    bases = [names.resolve(defined.module, base, defined.scopes) for base in node.bases]
    own = {function.name: function for function in node.body if isinstance(function, FUNCTIONS)}
    is_simple = all(isinstance(statement, FUNCTIONS) or _is_text(statement) for statement in node.body)
    if bases != [f"{patch.module}.{patch.target}"] or not is_simple or len(own) < len(all_methods(node)):
        return [(patch, defined)]
    theirs = {function.name: function for function in all_methods(original)}
    functions: list[Definition] = []
    for name, function in own.items():
        merged = _with_upstream(function, theirs.get(name)) if name == "__init__" else function
        if merged is None or _calls_super(merged):
            return [(patch, defined)]
        functions.append(merged)
    return [(replace(patch, target=f"{patch.target}.{f.name}"), replace(defined, node=f)) for f in functions]


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _calls_super(node: Definition) -> bool:
    return any(ast.unparse(call.func).startswith("super(") for call in ast.walk(node) if isinstance(call, ast.Call))


def _with_upstream(function: Function, upstream: Function | None) -> Function | None:
    """A function with upstream's statements where it calls upstream's; None where that is no statement of its own."""
    if upstream is None:
        return None
    merged = copy.deepcopy(function)
    merged.body = []
    for statement in function.body:
        is_call = isinstance(statement, ast.Expr) and ast.unparse(statement).startswith("super(")
        theirs = [s for s in upstream.body if not ast.unparse(s).startswith("super(")]
        merged.body += [copy.deepcopy(s) for s in theirs] if is_call else [copy.deepcopy(statement)]
    return merged
