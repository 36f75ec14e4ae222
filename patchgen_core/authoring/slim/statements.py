"""What two versions of a statement have in common, and what of it is code."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence

from patchgen_core.authoring.slim.parameters import NoEdits
from patchgen_core.syntax.forms import is_same_syntax
from patchgen_core.syntax.nodes import COMPOUND, blocks, has_elif

_BLOCKS = frozenset(["body", "orelse", "finalbody", "handlers", "cases"])
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def block_pairs(ours: ast.stmt, theirs: ast.stmt) -> list[tuple[list[ast.stmt], list[ast.stmt]]] | None:
    """The blocks of two compound statements that have the same parts; None for others."""
    if not isinstance(ours, COMPOUND) or type(ours) is not type(theirs) or _frame(ours) != _frame(theirs):
        return None
    if any(isinstance(statement, ast.If) and has_elif(statement) for statement in (ours, theirs)):
        return None
    return list(zip(blocks(ours), blocks(theirs), strict=True))


def head_of(statement: ast.stmt | None) -> object:
    """What a statement begins with that tells it from others; an object of its own where there is nothing."""
    if isinstance(statement, COMPOUND):
        return ast.unparse(statement).split("\n")[0]
    if isinstance(statement, ast.Assign):
        return ast.unparse(statement.targets[0])
    if isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        return ast.unparse(statement.target)
    return object()


def gains_branches(ours: ast.If, theirs: ast.If) -> bool:
    """Whether an ``if`` without an ``else`` has one in the new text."""
    return not ours.orelse and bool(theirs.orelse) and is_same_syntax(ours.test, theirs.test)


def _frame(node: ast.AST) -> str:
    """A compound statement without its blocks."""
    parts = []
    for name, value in ast.iter_fields(node):
        if name in ("handlers", "cases"):
            parts.append(f"{name} {[_frame(part) for part in value]}")
        elif name in _BLOCKS:
            parts.append(f"{name} {bool(value)}")
        else:
            parts.append(f"{name} {ast.dump(value) if isinstance(value, ast.AST) else _dumped(value)}")
    return "; ".join(parts)


def _dumped(value: object) -> str:
    return str([ast.dump(entry) for entry in value]) if isinstance(value, list) else repr(value)


def _blocks_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    return list(blocks(statement)) if isinstance(statement, COMPOUND) else []


def inner_blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a statement, and those in them."""
    for block in _blocks_of(statement):
        yield block
        for inner in block:
            yield from inner_blocks(inner)


def leaves(statement: ast.stmt) -> bool:
    """Whether nothing right after a statement may run, because it or a branch of it ends the block."""
    return isinstance(statement, _EXITS) or (
        isinstance(statement, COMPOUND) and any(leaves(block[-1]) for block in blocks(statement))
    )


def differing_expressions(ours: ast.AST, theirs: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """The smallest pairs of expressions in which two nodes differ."""
    pairs = list[tuple[ast.expr, ast.expr]]()
    for name in ours._fields if type(ours) is type(theirs) else ("",):
        one, other = getattr(ours, name, None), getattr(theirs, name, None)
        if name and (is_same_syntax(one, other) or name in ("ctx", "annotation")):
            continue
        if isinstance(one, ast.expr) and isinstance(other, ast.expr):
            pairs += differing_expressions(one, other)
        elif isinstance(ours, ast.expr) and isinstance(theirs, ast.expr):
            return [(ours, theirs)]
        else:
            raise NoEdits("they differ in more than expressions")
    return pairs


def comments_in(lines: Sequence[str]) -> list[str]:
    """The comments of some lines."""
    comments = []
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(line.lstrip() for line in lines)).readline):
            if token.type == tokenize.COMMENT:
                comments.append(token.string)
    except (tokenize.TokenError, SyntaxError, IndentationError):
        comments += [line.strip() for line in lines if line.strip().startswith("#")]
    return comments
