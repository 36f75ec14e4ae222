"""Which statement of one block is which of another."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from patchgen_core.syntax.nodes import DEFINITIONS
from patchgen_core.upgrade.merging.text import Unit

_ALIKE, _SAME_TARGET = 0.6, 0.3


@dataclass
class Matches:
    """Pairs of two blocks' statements by their numbers, in both directions; those of the first block that stand in
    another order in the second are `moved`."""

    pairs: dict[int, int] = field(default_factory=dict)
    back: dict[int, int] = field(default_factory=dict)
    moved: set[int] = field(default_factory=set)

    def add(self, left: int, right: int) -> None:
        """Note a pair."""
        self.pairs[left] = right
        self.back[right] = left


def match(left: Sequence[Unit], right: Sequence[Unit], in_class: bool) -> Matches:
    """Match two blocks: equal statements, then similar ones in order, then equal ones elsewhere."""
    matches = Matches()
    for one, other in _aligned([[likeness(one, other, in_class) for other in right] for one in left], len(right)):
        matches.add(one, other)
    for one in range(len(left)):
        if one in matches.pairs:
            continue
        others = [n for n in range(len(right)) if n not in matches.back and _is_same(left[one], right[n], in_class)]
        rivals = [n for n in range(len(left)) if n not in matches.pairs and left[n].dump == left[one].dump]
        if len(others) == 1 and len(rivals) == 1:
            matches.add(one, others[0])
            matches.moved.add(one)
    return matches


def _is_same(one: Unit, other: Unit, in_class: bool) -> bool:
    if in_class and (name := _bound_name(one.node)) is not None:
        return name == _bound_name(other.node)
    return one.dump == other.dump and len(one.dump) > 60  # `pass` or `break` elsewhere is another one


def _aligned(scores: list[list[float]], width: int) -> list[tuple[int, int]]:
    """The pairs in order with the highest sum of scores."""
    height = len(scores)
    best = [[0.0] * (width + 1) for _ in range(height + 1)]
    for row in range(height - 1, -1, -1):
        for column in range(width - 1, -1, -1):
            score = scores[row][column]
            paired = best[row + 1][column + 1] + score if score else 0.0
            best[row][column] = max(paired, best[row + 1][column], best[row][column + 1])
    results = []
    row = column = 0
    while row < height and column < width:
        score = scores[row][column]
        if score and best[row][column] == best[row + 1][column + 1] + score:
            results.append((row, column))
            row, column = row + 1, column + 1
        elif best[row][column] == best[row + 1][column]:
            row += 1
        else:
            column += 1
    return results


def likeness(one: Unit, other: Unit, in_class: bool) -> float:
    """How alike two statements are: 2 for equal ones, 0 for ones that are not each other."""
    if one.dump == other.dump:
        return 2.0
    left, right = one.node, other.node
    if in_class or isinstance(left, DEFINITIONS):
        name = _bound_name(left)
        return 1.5 if name is not None and name == _bound_name(right) else 0.0
    if _kind(left) != _kind(right):
        return 0.0
    ratio = _ratio(one.words, other.words)
    head, other_head = _head(one), _head(other)
    if head and head == other_head:
        return 0.5 + ratio if ratio >= _SAME_TARGET or not isinstance(left, (ast.Assign, ast.AnnAssign)) else 0.0
    return ratio if ratio >= _ALIKE else 0.0


def _kind(node: ast.stmt) -> str:
    return "Assign" if isinstance(node, ast.AnnAssign) and node.value is not None else type(node).__name__


def _bound_name(node: ast.stmt) -> str | None:
    """What a statement of a class binds."""
    if isinstance(node, DEFINITIONS):
        marks = [d.attr for d in node.decorator_list if isinstance(d, ast.Attribute) and d.attr in _ACCESSORS]
        return ".".join([node.name, *marks])
    targets = targets_of(node)
    return ast.unparse(targets[0]) if len(targets) == 1 else None


_ACCESSORS = ("setter", "deleter")


def targets_of(node: ast.stmt) -> list[ast.expr]:
    """What a statement assigns to."""
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign)) else []


def _head(unit: Unit) -> str:
    """What a statement is known by: its targets, its condition, what it loops over."""
    node = unit.node
    if isinstance(node, (ast.If, ast.While)):
        return unit.text.dump(node.test)
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return unit.text.dump(node.target)
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return "".join(ast.dump(item) for item in node.items)
    if isinstance(node, ast.Return):
        return "return"
    return "".join(unit.text.dump(target) for target in targets_of(node))


def _ratio(one: Counter[str], other: Counter[str]) -> float:
    return 2 * (one & other).total() / max(1, one.total() + other.total())
