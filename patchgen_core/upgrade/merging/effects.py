"""What statements read, write and do: whether two of them may stand in either order."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS

_LEAVING = (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await, ast.Break, ast.Continue, ast.Assert)
_DECLARING = (ast.Global, ast.Nonlocal, ast.Delete)


@dataclass(frozen=True)
class Effects:
    """The names that some statements read and write (attributes of ``self`` with the attribute), and whether they may
    leave the block or declare names."""

    reads: frozenset[str]
    writes: frozenset[str]
    leaves: bool

    def meets(self, other: Effects) -> bool:
        """Whether it matters which of the two comes first."""
        if self.leaves or other.leaves:
            return True
        return bool(self.writes & (other.reads | other.writes) or self.reads & other.writes)


def effects(nodes: Iterable[ast.AST]) -> Effects:
    """What statements do; of a call, only what is called on or, as a statement of its own, passed may change."""
    nodes = list(nodes)
    reads: set[str] = set()
    writes: set[str] = set()
    leaves = False
    passed: set[ast.AST] = set()
    for node in nodes:
        for child in _walk(node):
            if isinstance(child, (*_LEAVING, *_DECLARING)):
                leaves = True
            elif isinstance(child, DEFINITIONS):
                writes.add(child.name)
            elif isinstance(child, (ast.Import, ast.ImportFrom)):
                writes |= {(alias.asname or alias.name).split(".")[0] for alias in child.names}
            elif isinstance(child, ast.Name) and child not in passed:
                (reads if isinstance(child.ctx, ast.Load) else writes).add(child.id)
            elif isinstance(child, (ast.Attribute, ast.Subscript)):
                (reads if isinstance(child.ctx, ast.Load) else writes).add(place(child))
            if isinstance(child, ast.keyword) and child.arg is None and isinstance(child.value, ast.Name):
                reads.add(f"**{child.value.id}")
                passed.add(child.value)
            if isinstance(child, ast.AugAssign):
                reads.add(place(child.target))
            writes |= _changed(child)
    writes |= {f"**{name}" for name in writes}
    for node in nodes:
        for child in _walk(node):
            if _takes_out(child):
                writes.add(place(child))
    return Effects(frozenset(reads - {"self"}), frozenset(writes - {"self"}), leaves)


def _takes_out(node: ast.AST) -> bool:
    """Whether a call takes one known entry out of a dict: then what is left can be passed on with ``**`` as before."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "pop":
        return False
    return bool(node.args) and not isinstance(node.args[0], ast.Starred)


def _walk(node: ast.AST) -> Iterable[ast.AST]:
    """A node and what is below it; of functions, not what they only do when they are called."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(node, FUNCTIONS) and child in node.body:
            yield from (n for n in ast.walk(child) if isinstance(n, ast.Name))
        else:
            yield from _walk(child)


def _changed(node: ast.AST) -> set[str]:
    """What a call may change: what ``add_``, ``append`` and the like are called on; as a statement, all it gets."""
    if _takes_out(node.value if isinstance(node, ast.Expr) else node):
        return set()
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        passed = [*call.args, *(keyword.value for keyword in call.keywords)]
        if isinstance(call.func, ast.Attribute):
            passed.append(call.func.value)
        return {place(value) for value in passed if isinstance(value, (ast.Name, ast.Attribute, ast.Subscript))}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        if (name.endswith("_") and not name.startswith("_")) or name in _CHANGING:
            return {place(node.func.value)}
    return set()


_CHANGING = frozenset(
    ["append", "extend", "insert", "update", "pop", "popitem", "clear", "setdefault", "remove", "sort", "discard"]
)


def place(node: ast.AST) -> str:
    """The name that an expression is about, with the attribute for one of ``self``."""
    attribute = ""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred, ast.Call)):
        if isinstance(node, ast.Attribute):
            attribute = node.attr
        node = node.func if isinstance(node, ast.Call) else node.value
    name = node.id if isinstance(node, ast.Name) else ""
    return f"self.{attribute}" if name == "self" and attribute else name
