"""What a module exports: ``__all__`` as it is written down, or its public classes and functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.syntax.index import ModuleIndex
from patchgen_core.syntax.nodes import DEFINITIONS


def listing_names(index: ModuleIndex) -> set[str]:
    """``__all__``, and the names of the lists that it is made from."""
    names: set[str] = set()
    new = {"__all__"}
    while new:
        names |= new
        values = (getattr(statement, "value", None) for name in new for statement in index.assigned.get(name, ()))
        used = {n.id for value in values if value for n in ast.walk(value) if isinstance(n, ast.Name)}
        new = {name for name in used if name in index.assigned} - names
    return names


def exported_names(tree: ast.Module, index: ModuleIndex) -> list[str]:
    """What ``from module import *`` gives, as far as its text tells.

    Without ``__all__`` these are the public classes and functions that stand directly in the module and stay there.
    """
    if not has_listing(index):
        deleted = {t.id for s in tree.body if isinstance(s, ast.Delete) for t in s.targets if isinstance(t, ast.Name)}
        names = [node.name for node in tree.body if isinstance(node, DEFINITIONS)]
        return [name for name in dict.fromkeys(names) if not name.startswith("_") and name not in deleted]
    listing = listing_names(index)
    statements = [statement for name in listing for statement in index.assigned.get(name, ())]
    statements += [node for node in tree.body if _is_call_of(node, listing)]
    statements.sort(key=lambda statement: statement.lineno)
    words = (word for statement in statements for word in _words(statement))
    return [word for word in dict.fromkeys(words) if word in index.names]


def has_listing(index: ModuleIndex) -> bool:
    """Whether a module has an ``__all__``."""
    return "__all__" in index.assigned


def _is_call_of(node: ast.stmt, names: set[str]) -> bool:
    """Whether a statement is a call of a method of one of the names, such as ``__all__.append("X")``."""
    call = node.value if isinstance(node, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    owner = function.value if isinstance(function, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id in names


def _words(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from node.value.replace(",", " ").split()
