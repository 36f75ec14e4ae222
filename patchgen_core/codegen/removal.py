"""Taking names out of a module: excluded definitions, dropped imports, entries of ``__all__``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from patchgen_core.syntax.edits import Edit
from patchgen_core.syntax.exports import listing_names
from patchgen_core.syntax.index import ImportStatement, ModuleIndex, bound_name
from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS, Function, all_methods, blocks, is_filler, statements
from patchgen_core.syntax.source import SourceFile

Item = ast.expr | ast.alias
_COMMA = re.compile(r"(?:\s|\\|#[^\n]*\n)*,[ \t]*")


def removal_edits(
    source: SourceFile, index: ModuleIndex, excluded: Iterable[str], dropped: Iterable[str]
) -> list[Edit]:
    """The edits that leave out definitions and constants by name, and imports with their fallbacks."""
    excluded, dropped = set(excluded), set(dropped)
    if not excluded | dropped:
        return []
    gone: set[ast.stmt] = set()
    edits: list[Edit] = []
    for name in excluded:
        gone.update(index.definitions.get(name, ()))
        gone.update(excluded_methods(index, name))
    guarded = _guarded_imports(source.tree) & dropped
    listing = listing_names(index)
    for top in source.tree.body:
        inner = list(statements([top]))
        has_drop = any(dropped & set(_bound(s)) for s in inner if isinstance(s, (ast.Import, ast.ImportFrom)))
        names = excluded | (dropped if has_drop else guarded if _is_fallback(top) else set())
        for statement in inner:
            edits += _unbind(source, statement, names, gone)
            if statement not in gone:
                edits += _unlist(source, statement, excluded, gone, listing)
    return edits + _cut_all(source, source.tree.body, gone)


def excluded_methods(index: ModuleIndex, name: str) -> list[Function]:
    """The methods that a name such as ``Class.method`` stands for, a property's setter included."""
    cls, _, method = name.partition(".")
    return [
        function for node in index.classes.get(cls, ()) for function in all_methods(node) if function.name == method
    ]


def _guarded_imports(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for top in tree.body:
        if not isinstance(top, (ast.Import, ast.ImportFrom)):
            inner = (s for s in statements([top]) if isinstance(s, (ast.Import, ast.ImportFrom)))
            names.update(name for statement in inner for name in _bound(statement))
    return names


def _is_fallback(top: ast.stmt) -> bool:
    """Whether a top-level statement may stand in for a guarded import: a block, or an assigned constant."""
    if isinstance(top, ast.Assign):
        values = top.value.elts if isinstance(top.value, ast.Tuple) else [top.value]
        return all(isinstance(value, ast.Constant) for value in values)
    return isinstance(top, (ast.If, ast.Try, ast.With))


def _bound(statement: ImportStatement) -> list[str]:
    return [bound_name(statement, alias) for alias in statement.names]


def _unbind(source: SourceFile, statement: ast.stmt, names: set[str], gone: set[ast.stmt]) -> list[Edit]:
    """Take ``names`` out of one statement; adds it to ``gone`` when it binds nothing else."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        drop = [alias for alias in statement.names if bound_name(statement, alias) in names]
        if drop and len(drop) == len(statement.names):
            gone.add(statement)
            return []
        return _take_items(source, statement.names, drop, bracketed=source.text[source.end(statement) - 1] == ")")
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
    remaining = [target for target in statement.targets if not _is_removed(target, names)]
    if not remaining:
        gone.add(statement)
        return []
    edits = []
    following = [*statement.targets[1:], statement.value]
    for target, after in zip(statement.targets, following):
        if target not in remaining:
            edits.append(Edit(source.start(target), source.start(after), ""))
    for target in remaining:
        if isinstance(target, (ast.Tuple, ast.List)):
            edits += _unpack(source, statement, target, names, alone=len(remaining) == 1)
    return edits


def _unpack(
    source: SourceFile, statement: ast.Assign, target: ast.Tuple | ast.List, names: set[str], alone: bool
) -> list[Edit]:
    drop = [element for element in target.elts if _is_name(element, names)]
    if not drop:
        return []
    value = statement.value
    elements = [*target.elts, *(value.elts if isinstance(value, (ast.Tuple, ast.List)) else [])]
    paired = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
    if not (alone and paired and not any(isinstance(element, ast.Starred) for element in elements)):
        return [Edit(source.start(element), source.end(element), "_") for element in drop]
    assert isinstance(value, (ast.Tuple, ast.List))
    values = [value.elts[target.elts.index(element)] for element in drop]
    return [*_take_elements(source, target, drop, unwrap=True), *_take_elements(source, value, values, unwrap=True)]


def is_removable(statement: ast.stmt, name: str) -> bool:
    """Whether a statement that binds a name can be left with the rest of what it does."""
    if isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        return isinstance(statement.target, ast.Name)
    if not isinstance(statement, ast.Assign):
        return False
    parts = [e for t in statement.targets for e in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])]
    return any(_is_name(part, {name}) for part in parts) and not any(isinstance(p, ast.Starred) for p in parts)


def _is_name(node: ast.expr | None, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _is_removed(target: ast.expr, names: set[str]) -> bool:
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(_is_name(element, names) for element in target.elts)
    return _is_name(target, names)


def _unlist(
    source: SourceFile, statement: ast.stmt, names: set[str], gone: set[ast.stmt], listing: set[str]
) -> list[Edit]:
    """Take ``names`` out of ``__all__`` in the statements that make or change it."""
    value: ast.expr | None = None
    if isinstance(statement, ast.Assign):
        value = statement.value if any(_is_name(t, listing) for t in statement.targets) else None
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        value = statement.value if _is_name(statement.target, listing) else None
    elif isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call):
        function = call.func
        if isinstance(function, ast.Attribute) and _is_name(function.value, listing):
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
            edits += _take_elements(source, node, drop)
        elif isinstance(node, ast.Constant) and node not in listed and names & _words(node):
            words = "|".join(sorted(names))  # "A B".split() or "A,B".split(",")
            text = re.sub(rf"\b({words})\b[\s,]*", "", source.segment(node))
            text = re.sub(r"[\s,]+(['\"]+)$", r"\1", text)
            edits.append(Edit(source.start(node), source.end(node), text))
    return edits


def _words(node: ast.Constant) -> set[str]:
    return set(re.findall(r"\w+", node.value)) if isinstance(node.value, str) else set()


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _take_elements(
    source: SourceFile, node: ast.List | ast.Tuple | ast.Set, drop: Sequence[ast.expr], unwrap: bool = False
) -> list[Edit]:
    """Remove elements of a display; a tuple of which one is left keeps its comma, unless ``unwrap``."""
    remaining = [element for element in node.elts if element not in drop]
    if not drop:
        return []
    if len(remaining) == 1 and isinstance(node, ast.Tuple):
        start, end = _outer(source, remaining[0])
        text = source.text[start:end]
        return [Edit(source.start(node), source.end(node), text if unwrap else f"({text},)")]
    if not remaining:
        empty = {ast.Tuple: "()", ast.Set: "set()", ast.List: "[]"}[type(node)]
        return [Edit(source.start(node), source.end(node), empty)]
    return _take_items(source, node.elts, drop, source.text[source.start(node)] in "([{")


def _outer(source: SourceFile, node: ast.expr) -> tuple[int, int]:
    """The span of an expression with the brackets around it that are not part of it."""
    start, end = source.start(node), source.end(node)
    while True:
        before = re.compile(r"\([\s\\]*\Z").search(source.text[max(start - 200, 0) : start])
        after = re.compile(r"[\s\\]*\)").match(source.text, end)
        if before is None or after is None:
            return start, end
        start, end = start - (before.end() - before.start()), after.end()


def _span(source: SourceFile, item: Item, wrapped: bool) -> tuple[int, int]:
    if not wrapped or isinstance(item, ast.alias):
        return source.start(item), source.end(item)
    return _outer(source, item)


def _take_items(source: SourceFile, items: Sequence[Item], drop: Sequence[Item], bracketed: bool) -> list[Edit]:
    """Remove items of a comma-separated list: each with a comma, and with its line when it has one alone."""
    if not drop:
        return []
    # Brackets around a single item are the list's own.
    spans = {id(item): _span(source, item, len(items) > 1) for item in items}
    remaining = [item for item in items if item not in drop]
    edits: list[Edit] = []
    for number, item in enumerate(items):
        if item not in drop:
            continue
        start, end = spans[id(item)]
        if number + 1 < len(items):
            following = spans[id(items[number + 1])][0]
            comma = _COMMA.match(source.text, end)
            assert comma is not None
            on_next_line = "\n" in source.text[end : comma.end()]
            end = following if on_next_line or items[number + 1].lineno == item.end_lineno else comma.end()
        elif comma := _COMMA.match(source.text, end) if bracketed else None:
            end = comma.end()
        elif remaining:  # the last one, without a comma of its own: take the one before
            start = spans[id(remaining[-1])][1]
            edits = [edit for edit in edits if edit.end <= start]
            comment = re.compile(r"\s*,[ \t]*#[^\n]*").match(source.text, start) if bracketed else None
            start = comment.end() if comment else start
        edits.append(Edit(*_whole_lines(source, start, end), ""))
    return edits


def _whole_lines(source: SourceFile, start: int, end: int) -> tuple[int, int]:
    """The span widened to whole lines, when nothing but a comment stands beside it."""
    first = source.text.rfind("\n", 0, start) + 1
    line_end = source.text.find("\n", end)
    rest = source.text[end:line_end].strip()
    if source.text[first:start].strip() or not (rest == "" or rest.startswith("#")):
        return start, end
    return first, line_end + 1


# --- whole statements, and the blocks they leave empty ---------------------------------------------


def _cut_all(source: SourceFile, body: list[ast.stmt], gone: set[ast.stmt]) -> list[Edit]:
    edits: list[Edit] = []
    for group in _sharing_lines(body):
        cut = [statement for statement in group if statement in gone or _is_emptied(statement, gone)]
        if len(cut) == len(group):
            edits.append(_cut(source, group))
        elif cut:
            edits += _cut_some(source, group, cut)
        for statement in group:
            if statement not in cut and not isinstance(statement, FUNCTIONS):
                edits += _cut_inside(source, statement, gone)
    return edits


def _sharing_lines(body: list[ast.stmt]) -> list[list[ast.stmt]]:
    """The statements of a body, those of one line (``a; b``) together."""
    groups: list[list[ast.stmt]] = []
    for statement in body:
        if groups and groups[-1][-1].end_lineno == statement.lineno:
            groups[-1].append(statement)
        else:
            groups.append([statement])
    return groups


def _cut_inside(source: SourceFile, statement: ast.stmt, gone: set[ast.stmt]) -> list[Edit]:
    edits: list[Edit] = []
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
    return all(s in gone or is_filler(s) or _is_emptied(s, gone) for s in block)


def _is_emptied(statement: ast.stmt, gone: set[ast.stmt]) -> bool:
    """Whether a compound statement has nothing left to do.

    A ``try`` without a body cannot reach its handlers; it stays for what they bind.
    """
    if isinstance(statement, ast.Try):
        rest = [b for b in (statement.orelse, statement.finalbody) if b]
        handled = [s for handler in statement.handlers for s in handler.body]
        binds_nothing = all(s in gone or isinstance(s, (ast.Expr, ast.Pass, ast.Raise)) for s in handled)
        return _is_gone(statement.body, gone) and binds_nothing and all(_is_left_empty(b, gone) for b in rest)
    if isinstance(statement, (ast.If, ast.With)):
        parts = list(blocks(statement))
        return any(_is_gone(b, gone) for b in parts) and all(_is_left_empty(b, gone) for b in parts)
    return False


def _is_left_empty(block: list[ast.stmt], gone: set[ast.stmt]) -> bool:
    return _is_gone(block, gone) or all(is_filler(statement) for statement in block)


def _line_text_start(source: SourceFile, statement: ast.stmt) -> int:
    first = source.first_line(statement)
    if first == statement.lineno:
        return source.start(statement)
    return source.line_starts[first - 1] + len(source.indent(first))


def _cut(source: SourceFile, group: list[ast.stmt]) -> Edit:
    """Remove the statements of a line: whole lines with the comments directly above, or a one-line body."""
    statement = group[0]
    start, end = _line_text_start(source, statement), source.end(group[-1])
    first, last = source.first_line(statement), source.last_line(group[-1])
    if source.text[source.line_starts[first - 1] : start].strip():
        return Edit(start, end, "pass")
    if not isinstance(statement, (ast.Import, ast.ImportFrom)):
        first = source.comment_line(statement)
    return Edit(source.line_starts[first - 1], source.line_starts[last], "")


def _cut_some(source: SourceFile, group: list[ast.stmt], cut: list[ast.stmt]) -> list[Edit]:
    edits = []
    for number, statement in enumerate(group):
        if statement in cut:
            if number + 1 < len(group):
                edits.append(Edit(source.start(statement), source.start(group[number + 1]), ""))
            else:
                last = next(s for s in reversed(group) if s not in cut)
                edits = [edit for edit in edits if edit.end <= source.end(last)]
                edits.append(Edit(source.end(last), source.end(statement), ""))
    return edits


def _cut_else(source: SourceFile, block: list[ast.stmt]) -> Edit:
    """Remove an ``else`` clause, or the ``elif`` that is all of the block."""
    line = source.first_line(block[0])
    while not re.match(r"el(se|if)\b", source.lines[line - 1].strip()):
        line -= 1
    return Edit(source.line_starts[line - 1], source.line_starts[source.last_line(block[-1])], "")
