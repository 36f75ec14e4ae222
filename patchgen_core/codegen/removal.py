"""Taking names out of a module: excluded definitions, dropped imports, entries of ``__all__``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from patchgen_core.codegen.edits import Edit
from patchgen_core.codegen.index import ImportStatement, ModuleIndex, bound_name
from patchgen_core.codegen.source import DEFINITIONS, SourceFile, blocks, statements

Item = ast.expr | ast.alias


def removal_edits(
    source: SourceFile, index: ModuleIndex, excluded: Iterable[str], dropped: Iterable[str]
) -> list[Edit]:
    """The edits that leave out definitions and constants by name, and imports with their fallbacks."""
    excluded, dropped = set(excluded), set(dropped)
    gone: set[ast.stmt] = set()
    edits: list[Edit] = []
    for name in excluded:
        gone.update(index.definitions.get(name, ()))
    for top in source.tree.body:
        inner = list(statements([top]))
        names = set(excluded)
        if any(dropped.intersection(_bound(s)) for s in inner if isinstance(s, (ast.Import, ast.ImportFrom))):
            names |= dropped
        for statement in inner:
            edits += _unbind(source, statement, names, gone)
            edits += _unlist(source, statement, excluded, gone)
    return edits + _cut_all(source, source.tree.body, gone)


def _bound(statement: ImportStatement) -> list[str]:
    return [bound_name(statement, alias) for alias in statement.names]


def _unbind(source: SourceFile, statement: ast.stmt, names: set[str], gone: set[ast.stmt]) -> list[Edit]:
    """Take ``names`` out of one statement; adds it to ``gone`` when it binds nothing else."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        drop = [alias for alias in statement.names if bound_name(statement, alias) in names]
        if drop and len(drop) == len(statement.names):
            gone.add(statement)
            return []
        return _take_items(source, statement.names, drop, bracketed=_is_bracketed(source, statement))
    if isinstance(statement, ast.Assign):
        return _unassign(source, statement, names, gone)
    if isinstance(statement, DEFINITIONS):
        is_gone = statement.name in names
    else:
        target = getattr(statement, "target", None)  # of an annotated or augmented assignment
        is_gone = isinstance(statement, (ast.AnnAssign, ast.AugAssign)) and _is_name(target, names)
    if is_gone:
        gone.add(statement)
    return []


def _unassign(source: SourceFile, statement: ast.Assign, names: set[str], gone: set[ast.stmt]) -> list[Edit]:
    """``a = b = None`` loses a target, ``a, b = None, None`` an element of each side."""
    kept = [target for target in statement.targets if not _is_removed(target, names)]
    if not kept:
        gone.add(statement)
        return []
    edits = []
    following = [*statement.targets[1:], statement.value]
    for target, after in zip(statement.targets, following):
        if target not in kept:
            edits.append(Edit(source.start(target), source.start(after), ""))
    for target in kept:
        if isinstance(target, (ast.Tuple, ast.List)):
            edits += _unpack(source, statement, target, names, alone=len(kept) == 1)
    return edits


def _unpack(
    source: SourceFile, statement: ast.Assign, target: ast.Tuple | ast.List, names: set[str], alone: bool
) -> list[Edit]:
    drop = [element for element in target.elts if _is_name(element, names)]
    if not drop:
        return []
    value = statement.value
    if alone and isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
        left = [i for i, element in enumerate(target.elts) if element not in drop]
        if len(left) == 1:  # a one-element tuple needs no tuple
            return [
                Edit(source.start(target), source.end(target), source.segment(target.elts[left[0]])),
                Edit(source.start(value), source.end(value), source.segment(value.elts[left[0]])),
            ]
        paired = [value.elts[target.elts.index(element)] for element in drop]
        return [
            *_take_items(source, target.elts, drop, _is_bracketed(source, target)),
            *_take_items(source, value.elts, paired, _is_bracketed(source, value)),
        ]
    return [Edit(source.start(element), source.end(element), "_") for element in drop]


def _is_name(node: ast.expr | None, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _is_removed(target: ast.expr, names: set[str]) -> bool:
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(_is_name(element, names) for element in target.elts)
    return _is_name(target, names)


def _unlist(source: SourceFile, statement: ast.stmt, names: set[str], gone: set[ast.stmt]) -> list[Edit]:
    """Take ``names`` out of ``__all__`` in the statements that make or change it."""
    value: ast.expr | None = None
    if isinstance(statement, ast.Assign):
        value = statement.value if any(_is_name(t, {"__all__"}) for t in statement.targets) else None
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        value = statement.value if _is_name(statement.target, {"__all__"}) else None
    elif isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call):
        function = call.func
        if isinstance(function, ast.Attribute) and _is_name(function.value, {"__all__"}):
            if call.args and _text(call.args[-1]) in names:  # append, insert, remove
                gone.add(statement)
                return []
            value = call
    if value is None:
        return []
    edits: list[Edit] = []
    listed: set[ast.AST] = set()
    for node in ast.walk(value):
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            listed.update(node.elts)
            drop = [element for element in node.elts if _text(element) in names]
            edits += _take_items(source, node.elts, drop, _is_bracketed(source, node))
        elif isinstance(node, ast.Constant) and node not in listed and names & _words(node):
            words = "|".join(sorted(names))  # "A B".split()
            text = re.sub(rf"\b({words})\b[\s,]*", "", source.segment(node))
            edits.append(Edit(source.start(node), source.end(node), text))
    return edits


def _words(node: ast.Constant) -> set[str]:
    return set(re.findall(r"\w+", node.value)) if isinstance(node.value, str) else set()


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_bracketed(source: SourceFile, node: ast.stmt | ast.expr) -> bool:
    return source.text[source.end(node) - 1] in ")]}"


def _take_items(source: SourceFile, items: Sequence[Item], drop: Sequence[Item], bracketed: bool) -> list[Edit]:
    """Remove items of a comma-separated list: each with its comma, and with its line when it has one alone."""
    edits: list[Edit] = []
    for number, item in enumerate(items):
        if item not in drop:
            continue
        start, end = source.start(item), source.end(item)
        if not bracketed and number == len(items) - 1:
            kept = [other for other in items if other not in drop]
            start = source.end(kept[-1]) if kept else start
            edits = [edit for edit in edits if edit.end <= start]
        else:
            comma = re.compile(r"[ \t]*(?:\\?\n[ \t]*)?,[ \t]*").match(source.text, end)
            end = comma.end() if comma else end
            if not source.text[source.line_starts[item.lineno - 1] : start].strip():
                rest = source.text[end : source.line_starts[item.end_lineno or 0]]
                if not rest.strip() or rest.strip().startswith("#"):
                    start = source.line_starts[item.lineno - 1]
                    end = source.line_starts[item.end_lineno or 0]
        edits.append(Edit(start, end, ""))
    return edits


# --- whole statements, and the blocks they leave empty ---------------------------------------------


def _cut_all(source: SourceFile, body: list[ast.stmt], gone: set[ast.stmt]) -> list[Edit]:
    edits: list[Edit] = []
    for statement in body:
        if statement in gone or _is_emptied(statement, gone):
            edits.append(_cut(source, statement))
        elif not isinstance(statement, DEFINITIONS):
            for block in blocks(statement):
                if not _is_gone(block, gone):
                    edits += _cut_all(source, block, gone)
                elif block is getattr(statement, "orelse", None):
                    edits.append(_cut_else(source, block))
                else:
                    edits.append(Edit(_line_text_start(source, block[0]), source.end(block[-1]), "pass"))
    return edits


def _is_gone(block: list[ast.stmt], gone: set[ast.stmt]) -> bool:
    """Whether a block loses everything it has (``pass`` is nothing)."""
    if not any(statement in gone for statement in statements(block)):
        return False
    return all(s in gone or _is_nothing(s) or _is_emptied(s, gone) for s in block)


def _is_nothing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is Ellipsis
    )


def _is_emptied(statement: ast.stmt, gone: set[ast.stmt]) -> bool:
    """Whether a compound statement has nothing left to do.

    A ``try`` without a body cannot reach its handlers.
    """
    if isinstance(statement, ast.Try):
        rest = [b for b in (statement.orelse, statement.finalbody) if b]
        return _is_gone(statement.body, gone) and all(_is_left_empty(b, gone) for b in rest)
    if isinstance(statement, (ast.If, ast.With)):
        parts = list(blocks(statement))
        return any(_is_gone(b, gone) for b in parts) and all(_is_left_empty(b, gone) for b in parts)
    return False


def _is_left_empty(block: list[ast.stmt], gone: set[ast.stmt]) -> bool:
    return _is_gone(block, gone) or all(_is_nothing(statement) for statement in block)


def _line_text_start(source: SourceFile, statement: ast.stmt) -> int:
    """Offset of a statement, or of its first decorator."""
    first = source.first_line(statement)
    if first == statement.lineno:
        return source.start(statement)
    return source.line_starts[first - 1] + len(source.indent(first))


def _cut(source: SourceFile, statement: ast.stmt) -> Edit:
    """Remove a statement: its lines with the comments directly above, or its part of a shared line."""
    start, end = _line_text_start(source, statement), source.end(statement)
    first, last = source.first_line(statement), source.last_line(statement)
    before = source.text[source.line_starts[first - 1] : start]
    after = source.lines[(statement.end_lineno or 0) - 1][end - source.line_starts[(statement.end_lineno or 0) - 1] :]
    if not before.strip() and (not after.strip() or after.strip().startswith("#")):
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            first = source.comment_line(statement)
        return Edit(source.line_starts[first - 1], source.line_starts[last], "")
    if separator := re.compile(r"\s*;[ \t]*").match(after):
        return Edit(start, end + separator.end(), "")
    return Edit(source.line_starts[first - 1] + len(before.rstrip("; \t")), end, "")


def _cut_else(source: SourceFile, block: list[ast.stmt]) -> Edit:
    """Remove an ``else`` clause, or the ``elif`` that is all of the block."""
    line = source.first_line(block[0])
    while not re.match(r"el(se|if)\b", source.lines[line - 1].strip()):
        line -= 1
    return Edit(source.line_starts[line - 1], source.line_starts[source.last_line(block[-1])], "")
