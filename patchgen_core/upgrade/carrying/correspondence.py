"""Which statements of another release stand for those at the place of an edit."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import pairwise

from patchgen_core.syntax.nodes import FUNCTIONS, without_docstring
from patchgen_core.upgrade.carrying.definitions import ReleaseDefinition
from patchgen_core.upgrade.merging.match import match
from patchgen_core.upgrade.merging.text import units

_Block = list[ast.stmt]


def corresponding(old: ReleaseDefinition, new: ReleaseDefinition, nodes: Sequence[ast.AST]) -> _Block:
    """The new release's statements for some that follow each other; none where that is not clear."""
    path = _path_to(old.text.definition, nodes[0])
    before, after = old.text.definition, new.text.definition
    if path is None or not isinstance(before, FUNCTIONS) or not isinstance(after, FUNCTIONS):
        return []
    theirs = without_docstring(after)
    for (_, block, number), (field, _, _) in pairwise(path):
        pairs = _pairs(old, new, block, theirs)
        counterpart = theirs[pairs[number]] if number in pairs else None
        theirs = getattr(counterpart, field, []) if type(counterpart) is type(block[number]) else []
    _, ours, number = path[-1]
    return _run(old, new, ours, theirs, range(number, number + len(nodes)))


def _run(old: ReleaseDefinition, new: ReleaseDefinition, ours: _Block, theirs: _Block, numbers: range) -> _Block:
    """What the statements of some numbers became, with those that came between them."""
    if not theirs or numbers.stop > len(ours):
        return []
    pairs = _pairs(old, new, ours, theirs)
    others = [pairs.get(number) for number in numbers]
    places = [other for other in others if other is not None]
    if len(places) < len(others) or places != sorted(places):
        return []
    return theirs[places[0] : places[-1] + 1]


def _pairs(old: ReleaseDefinition, new: ReleaseDefinition, ours: _Block, theirs: _Block) -> dict[int, int]:
    return match(units(old.text, ours), units(new.text, theirs), in_class=False).pairs


def _path_to(function: ast.AST, node: ast.AST) -> list[tuple[str, _Block, int]] | None:
    """The blocks from a function's body to the one that a statement stands in: field, statements, number in it."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(function, field, None)
        if not isinstance(block, list):
            continue
        statements = without_docstring(function) if isinstance(function, FUNCTIONS) else block
        for number, statement in enumerate(statements):
            step = (field, statements, number)
            if statement is node:
                return [step]
            inner = _path_to(statement, node) if isinstance(statement, ast.stmt) else None
            if inner is not None:
                return [step, *inner]
    return None


def statement_around(function: ast.AST, node: ast.AST) -> ast.stmt | None:
    """The smallest statement that an expression stands in."""
    inside = [
        statement
        for statement in ast.walk(function)
        if isinstance(statement, ast.stmt) and statement is not function and node in ast.walk(statement)
    ]
    return min(inside, key=lambda statement: len(list(ast.walk(statement))), default=None)
