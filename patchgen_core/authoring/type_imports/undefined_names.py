"""What a file uses, and what it does not define."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass

from patchgen_core.syntax.scope_analysis import find_scopes

_KNOWN = frozenset(dir(builtins)) | {
    *("__annotations__", "__builtins__", "__dict__", "__doc__", "__file__", "__loader__"),
    *("__name__", "__package__", "__path__", "__spec__"),
}


@dataclass(frozen=True)
class NamesOfFile:
    """The global names of a file.

    Attributes:
        used: those that something in it reads, or lists in ``__all__``.
        undefined: those that code or an annotation reads and nothing binds. What Python asks for while it loads the
            file is not among them: an import under ``if TYPE_CHECKING:`` would not help there.
    """

    used: frozenset[str]
    undefined: frozenset[str]


def find_names(tree: ast.Module) -> NamesOfFile:
    """The global names of a file; none is undefined in one that imports everything of a module."""
    lazy = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)  # a config's annotations are not evaluated
    scopes = find_scopes(ast.Module([lazy, *tree.body], tree.type_ignores))
    used: set[str] = set()
    early: set[str] = set()
    for reference in scopes.references:
        names = {name for name in reference.names if reference.is_global(name)}
        used |= names
        early |= names if reference.moment == "import" else set()
    has_star = any(
        alias.name == "*" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    )
    unbound = set() if has_star else used - early - scopes.top.bound.keys() - _KNOWN
    return NamesOfFile(frozenset(used | _exported(tree)), frozenset(unbound))


def _exported(tree: ast.Module) -> set[str]:
    values = (
        node.value
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and "__all__" in ast.unparse(node)
    )
    constants = (part for value in values if value is not None for part in ast.walk(value))
    return {part.value for part in constants if isinstance(part, ast.Constant) and isinstance(part.value, str)}
