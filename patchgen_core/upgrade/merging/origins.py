"""Where each statement of a merged text comes from, and which uses of values neither side had."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from patchgen_core.syntax.edits import Edit
from patchgen_core.upgrade.merging.casts import is_cast_to_operand, keeps_dtype
from patchgen_core.upgrade.merging.edits import Edits
from patchgen_core.upgrade.merging.flow import ValueUse, find_uses
from patchgen_core.upgrade.merging.text import DefinitionText


@dataclass(frozen=True)
class NewUse:
    """A value that a statement uses in the merged text and in neither side, or in upstream's only.

    Attributes:
        source, target: the statements of the merged text that assign it, None for none, and use it.
        is_lost: whether it is upstream's: a new statement's value that upstream's text uses there.
    """

    use: ValueUse
    source: ast.stmt | None
    target: ast.stmt
    is_lost: bool = False


def find_new_uses(edits: Edits, merged: DefinitionText, theirs: DefinitionText) -> list[NewUse]:
    """The uses in a clean merge that neither side has, and those of upstream's new statements that are no more."""
    ours = edits.text
    labels = labels_of(edits, merged, theirs)
    by_label = {labels[node]: node for node in statements(merged.definition)}
    sides = [find_uses(t.definition, labels.__getitem__, own) for t, own in ((ours, edits.changed), (theirs, ()))]
    all_uses = {use for side in sides for use in side}
    is_known = _known_otherwise(sides[0], sides[1], set(by_label))
    old: dict[object, ast.stmt] = {mine: before for before, mine in edits.old.items()}
    new_uses = []
    uses = find_uses(merged.definition, labels.__getitem__, edits.changed)
    for use, node in uses.items():
        if use in all_uses or is_known(use):
            continue
        if _is_cast(use, node, old.get(use.source), sides):
            edits.notes.append(f"upstream casts '{use.name}' to the dtype that it is added to, and so yours")
        else:
            new_uses.append(NewUse(use, by_label.get(use.source), node))
    added = {node for node in statements(theirs.definition) if labels[node] is node}
    there = {(use.source, use.target, use.name) for use in uses}
    for use in sides[1]:
        is_kept = use.source in added and use.source in by_label and use.target in by_label
        if is_kept and (use.source, use.target, use.name) not in there:
            new_uses.append(NewUse(use, by_label[use.source], by_label[use.target], is_lost=True))
    return sorted(new_uses, key=_order)


def labels_of(edits: Edits, merged: DefinitionText, theirs: DefinitionText) -> dict[ast.stmt, object]:
    """What the statements of upstream's new text, of ours and of the merged one are known by."""
    labels: dict[ast.stmt, object] = {node: edits.same.get(node, node) for node in statements(theirs.definition)}
    labels |= {node: node for node in statements(edits.text.definition)}
    return labels | _origins(edits, merged, labels)


def _order(new: NewUse) -> tuple[int, str, int]:
    return new.target.lineno, new.use.name, new.source.lineno if new.source is not None else 0


def _known_otherwise(
    ours: Iterable[ValueUse], theirs: Iterable[ValueUse], unchanged: Container[object]
) -> Callable[[ValueUse], bool]:
    """Whether ours has a use but for what upstream changed around it.

    Either the statement puts the same value into an object in ours, and upstream's puts what has its name into one of
    another class; or a statement that upstream replaced by this one used it in the same way.
    """
    same = {(use.source, use.target, use.name) for use in ours if _is_class(use.how)}
    named = {(use.target, use.name, use.how) for use in theirs if _is_class(use.how)}
    replaced = {(use.source, use.name, use.how) for use in ours if use.target not in unchanged}

    def is_known(use: ValueUse) -> bool:
        is_same = (use.source, use.target, use.name) in same and (use.target, use.name, use.how) in named
        return is_same or (use.source, use.name, use.how) in replaced

    return is_known


def _is_cast(use: ValueUse, node: ast.stmt, old: ast.stmt | None, sides: Sequence[Iterable[ValueUse]]) -> bool:
    """Whether ours makes a value as upstream did, or of upstream's, in the same dtype, and uses it where upstream only
    casts its own now; ``old`` is upstream's statement that ours makes it by, if any."""
    ours, theirs = sides
    is_ours = any((one.source, one.target, one.name) == (use.source, use.target, use.name) for one in ours)
    is_theirs = any((one.target, one.name, one.how) == (use.target, use.name, use.how) for one in theirs)
    source = use.source if isinstance(use.source, ast.stmt) else None
    is_cast = use.how == ".to" and is_cast_to_operand(node, use.name) and keeps_dtype(source, use.name, old)
    return is_cast and is_ours and is_theirs


def _is_class(how: str) -> bool:
    return how.isidentifier() and how[:1].isupper()


def find_bypasses(edits: Edits) -> Iterator[str]:
    """Notes on our own code that returns before upstream's change is reached."""
    upstreams = set(edits.same.values())
    source = edits.text.source
    for node in statements(edits.text.definition):
        returns = isinstance(node, ast.If) and any(isinstance(n, ast.Return) for n in ast.walk(node))
        changed = [edit for edit in edits.edits if edit.start > source.end(node) and edits.is_code(edit)]
        if returns and node not in upstreams and changed:
            line = source.lines[node.lineno - 1].strip()
            yield f"your `{line}` returns before upstream's change, so that path stays as it was"


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements below a definition, in the order of the text."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        yield from statements(child)


def _origins(edits: Edits, merged: DefinitionText, labels: dict[ast.stmt, object]) -> dict[ast.stmt, object]:
    """The labels of the merged text's statements."""
    ours = {edits.text.source.start(node): node for node in statements(edits.text.definition)}
    pieces = list(_pieces(edits))
    inserted = [_below(piece.edit.origin if piece.edit is not None and piece.edit.origin else []) for piece in pieces]
    results: dict[ast.stmt, object] = {}
    for node in statements(merged.definition):
        start = merged.source.start(node)
        number = next(n for n, piece in enumerate(pieces) if piece.start <= start < piece.end)
        piece = pieces[number]
        if piece.edit is None or not piece.edit.origin:
            offset = piece.offset if piece.edit is not None else start - piece.start + piece.offset
            results[node] = ours.get(offset, node)
        else:
            results[node] = labels[next(inserted[number])]
    return results


@dataclass(frozen=True)
class _Piece:
    """A part of the merged text: its offsets, the one that it stands for in ours, and the edit that wrote it."""

    start: int
    end: int
    offset: int
    edit: Edit | None


def _pieces(edits: Edits) -> Iterator[_Piece]:
    position = written = 0
    text = edits.text.source.text
    for edit in sorted(edits.edits, key=lambda edit: (edit.start, edit.end)):
        length = edit.start - position
        yield _Piece(written, written + length, position, None)
        written += length
        yield _Piece(written, written + len(edit.new), edit.start, edit)
        written += len(edit.new)
        position = edit.end
    yield _Piece(written, written + len(text) - position, position, None)


def _below(nodes: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in nodes:
        yield node
        yield from statements(node)
