"""A function of upstream's with the edits of a config in it, line by line with where each line comes from."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from patchgen_core.codegen.edit_checks import bound_names, check_parameters, check_syntax
from patchgen_core.codegen.edit_places import locate_expressions, locate_statements, read_pattern
from patchgen_core.codegen.edit_templates import Template, function_template, text_template
from patchgen_core.codegen.imports import absolute_import_edits
from patchgen_core.codegen.parameter_edits import parameter_edits
from patchgen_core.codegen.quoted_code import NewCode, delete_dict_item, delete_item
from patchgen_core.codegen.renaming import map_prefixes
from patchgen_core.codegen.targets import ComposedLine, PlannedPatch
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.syntax.edits import Edit, apply_edits
from patchgen_core.syntax.nodes import Function, has_elif, string_lines, without_docstring
from patchgen_core.syntax.patterns import Match, Pattern, find_statements
from patchgen_core.syntax.source import SourceFile, shift

_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class _Author:
    """The edit that a piece of text comes from, and its line in the config."""

    edit: PlannedPatch
    location: Location


_Texts = dict[int, list[tuple[str, _Author | None]]]
"""Lines, and whose they are, by the number of upstream's line that they take the place of."""


@dataclass
class _Region:
    """Lines of upstream's that an edit puts its template in the place of; ``inner`` are regions inside of it."""

    first: int
    last: int
    order: int
    edit: PlannedPatch
    template: Template
    inner: list[_Region] = field(default_factory=list)


def compose_function(
    source: SourceFile, function: Function, edits: Sequence[PlannedPatch], package: str
) -> tuple[ComposedLine, ...]:
    """The lines of a function from its ``def`` on, at column 0, with edits in it; its imports become absolute.

    ``package`` is the one that its relative imports start from. A PatchgenError when an edit has no place, when two of
    them overlap, or when the result is not valid Python.
    """
    regions: list[_Region] = []
    pieces: list[tuple[Edit, PlannedPatch]] = []
    bound = bound_names(function, edits)
    for order, edit in enumerate(edits):
        for part in _place(source, function, edit):
            if isinstance(part, Edit):
                pieces.append((part, edit))
            else:
                regions.append(replace(part, order=order))
        check_parameters(edit, bound)
    roots = _nest(regions)
    lines = _Lines(source, function, _checked_pieces(source, pieces, regions), package)
    first, last = function.lineno, source.last_line(function)
    result = tuple(lines.render(first, last, roots))
    check_syntax(result, edits)
    return result


# --- finding the places ----------------------------------------------------------------------------


def _place(source: SourceFile, function: Function, edit: PlannedPatch) -> Iterator[_Region | Edit]:
    """What an edit changes: lines that it puts something in the place of, or pieces of text."""
    patch, label = edit.patch, edit.label
    if patch.kind in ("parameter_addition", "parameter_removal"):
        at, code, entry = (map_prefixes(text, patch.name_map) for text in (patch.at, patch.code, patch.documentation))
        mapped = replace(patch, at=at, code=code, documentation=entry)
        yield from parameter_edits(mapped, label, source, function)
    elif patch.kind in ("code_replacement", "code_deletion"):
        yield from _place_quoted(source, function, edit)
    elif not patch.at:
        if patch.count != 1:
            raise PatchgenError(f"{label}: count goes with at", patch.location, "Name the place with at=.")
        body = without_docstring(function)
        assert edit.replacement is not None
        template = function_template(edit.replacement, patch, label)
        if not body:
            raise PatchgenError(
                f"{label}: upstream's function has no code to edit", patch.location, "Use override_method."
            )
        yield _region(source, edit, template, Match(tuple(body)), source.last_line(function))
    else:
        assert edit.replacement is not None
        template = function_template(edit.replacement, patch, label)
        pattern = read_pattern(patch, label)
        for match in locate_statements(pattern, patch, label, source, function):
            yield _region(source, edit, template, match)


def _place_quoted(source: SourceFile, function: Function, edit: PlannedPatch) -> Iterator[_Region | Edit]:
    patch, label = edit.patch, edit.label
    pattern = read_pattern(patch, label)
    if patch.kind == "code_deletion":
        yield from _place_deletion(source, function, edit, pattern)
        return
    code = NewCode(map_prefixes(patch.code, patch.name_map), pattern.statements, patch, label, source)
    if pattern.expression is not None and code.expression is not None:
        parents = {id(child): node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
        for match in locate_expressions(pattern, patch, label, source, function):
            yield from code.edits(match, parents.get(id(match.nodes[0])))
        return
    for match in locate_statements(pattern, patch, label, source, function):
        yield _region(source, edit, text_template(code.text(match), patch, label), match)


def _place_deletion(
    source: SourceFile, function: Function, edit: PlannedPatch, pattern: Pattern
) -> Iterator[_Region | Edit]:
    patch, label = edit.patch, edit.label
    if pattern.expression is None or find_statements(pattern, function):
        for match in locate_statements(pattern, patch, label, source, function):
            is_all = any(len(match.nodes) == len(b) and b[0] is match.nodes[0] for b in _blocks(function))
            yield _region(source, edit, text_template("pass", patch, label) if is_all else Template(()), match)
        return
    holders = {
        id(item): node
        for node in ast.walk(function)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict))
        for item in (node.keys if isinstance(node, ast.Dict) else node.elts)
    }
    for match in locate_expressions(pattern, patch, label, source, function):
        item, holder = match.nodes[0], holders.get(id(match.nodes[0]))
        if holder is None or isinstance(holder, ast.Dict) != pattern.is_item:
            hint = "Use replace_code to say what is there instead."
            raise PatchgenError(f"{label}: '{pattern.text}' is neither a statement nor an item", patch.location, hint)
        assert isinstance(item, ast.expr)
        if isinstance(holder, ast.Dict):
            yield delete_dict_item(source, holder, item)
        else:
            yield delete_item(source, holder.elts, item)


def _blocks(function: Function) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield block


def _region(
    source: SourceFile, edit: PlannedPatch, template: Template, match: Match, last: int | None = None
) -> _Region:
    """The lines of some statements, with the comments above them where upstream's code stays or goes."""
    first_node, last_node = match.nodes[0], match.nodes[-1]
    assert isinstance(first_node, ast.stmt)
    assert isinstance(last_node, ast.stmt)
    start, end = source.start(first_node), source.end(last_node)
    before = source.text[source.line_starts[first_node.lineno - 1] : start]
    behind = source.text[end:].partition("\n")[0].partition("#")[0]
    if (before.strip() and not hasattr(first_node, "decorator_list")) or behind.strip():
        message = f"{edit.label}: upstream's line {first_node.lineno} holds more than one statement"
        raise PatchgenError(message, edit.patch.location, "Use override_method for such code.")
    if template.follower is not None and _leaves(last_node):
        message = f"{edit.label}: upstream's code ends with line {last_node.end_lineno}, '{_first_line(last_node)}'"
        raise PatchgenError(f"{message}, so what follows '...' never runs", template.follower, _LEAVING)
    if template.branch is not None and not _takes_branches(match.nodes):
        message = f"{edit.label}: 'if ...:' needs an upstream 'if' without an 'else'"
        raise PatchgenError(message, template.branch, f"It is line {first_node.lineno}, '{_first_line(first_node)}'.")
    has_comments = bool(template.rests) or not template.lines
    first = source.comment_line(first_node) if has_comments else source.first_line(first_node)
    return _Region(first, last or source.last_line(last_node), 0, edit, template)


_LEAVING = "Put it before '...', or say with at= what it follows; wrap_method changes what is returned."


def _leaves(statement: ast.stmt) -> bool:
    """Whether nothing after a statement can run."""
    if isinstance(statement, ast.If) and statement.orelse:
        return _leaves(statement.body[-1]) and _leaves(statement.orelse[-1])
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return _leaves(statement.body[-1])
    return isinstance(statement, _EXITS)


def _takes_branches(nodes: Sequence[ast.AST]) -> bool:
    """Whether nodes are an ``if`` that can get another branch."""
    node = nodes[0] if len(nodes) == 1 else None
    while isinstance(node, ast.If) and has_elif(node):
        node = node.orelse[0]
    return isinstance(node, ast.If) and not node.orelse


def _first_line(statement: ast.stmt) -> str:
    return ast.unparse(statement).split("\n")[0]


# --- overlaps --------------------------------------------------------------------------------------


def _nest(regions: list[_Region]) -> list[_Region]:
    """The outermost regions, with the others inside of them; of two on the same lines, the later one is outside."""
    roots: list[_Region] = []
    around: list[_Region] = []
    for region in sorted(regions, key=lambda r: (r.first, -r.last, -r.order)):
        while around and around[-1].last < region.first:
            around.pop()
        if around:
            outer = around[-1]
            if region.last > outer.last or outer.template.rests != 1:
                raise _overlap(outer.edit, region.edit, max(outer.first, region.first))
            outer.inner.append(region)
        else:
            roots.append(region)
        around.append(region)
    return roots


def _overlap(one: PlannedPatch, other: PlannedPatch, line: int) -> PatchgenError:
    first, second = (one, other) if _line_of(one) <= _line_of(other) else (other, one)
    message = f"{second.label} overlaps {first.label} at {first.patch.location}, in upstream's line {line}"
    return PatchgenError(message, second.patch.location, "Make them one edit, or give one of them another place.")


def _line_of(edit: PlannedPatch) -> tuple[str, int]:
    location = edit.patch.location
    return (location.file, location.line) if location is not None else ("", 0)


def _checked_pieces(source: SourceFile, pieces: list[tuple[Edit, PlannedPatch]], regions: list[_Region]) -> list[Edit]:
    """Pieces of text in their order, none of them inside another or in lines that an edit takes out."""
    ordered = sorted(pieces, key=lambda piece: (piece[0].start, piece[0].end))
    for (before, one), (after, other) in pairwise(ordered):
        if after.start < before.end or (before.start == after.start and before.end == after.end > after.start):
            raise _overlap(one, other, source.text.count("\n", 0, after.start) + 1)
    for piece, edit in ordered:
        line = source.text.count("\n", 0, piece.start) + 1
        taken = next((r for r in regions if r.first <= line <= r.last and not r.template.rests), None)
        if taken is not None:
            raise _overlap(taken.edit, edit, line)
    return [
        replace(piece, origin=_Author(edit, edit.patch.location)) for piece, edit in ordered if edit.patch.location
    ]


# --- the lines -------------------------------------------------------------------------------------


class _Lines:
    """Upstream's lines with pieces of text changed, and what regions make of them."""

    def __init__(self, source: SourceFile, function: Function, pieces: list[Edit], package: str) -> None:
        self.source, self.indent = source, source.indent(function.lineno)
        first, last = function.lineno, source.last_line(function)
        start, end = source.line_starts[first - 1], source.line_starts[last] - 1
        imports = [e for e in absolute_import_edits(source, package) if start <= e.start and e.end <= end]
        self.by_number = self._changed([*pieces, *imports], first, last)

    def _changed(self, pieces: list[Edit], first: int, last: int) -> dict[int, list[ComposedLine]]:
        """What there is for each of upstream's lines; for several that a piece of text joins, at the first of them."""
        source = self.source
        texts: _Texts = {n: [(source.lines[n - 1], None)] for n in range(first, last + 1)}
        texts |= _changed_texts(source, pieces)
        flat = [(number, text, author) for number in sorted(texts) for text, author in texts[number]]
        strings = _string_lines([text for _, text, _ in flat], self.indent) if pieces else None
        by_number: dict[int, list[ComposedLine]] = {number: [] for number in texts}
        for at, (number, text, author) in enumerate(flat):
            is_string = at in strings if strings is not None else number in source.string_lines
            by_number[number].append(self._line(text, is_string, author))
        return by_number

    def _line(self, text: str, is_string: bool, author: _Author | None) -> ComposedLine:
        (moved,) = shift([text], self.indent, "", {0} if is_string else ())
        edit, location = (author.edit, author.location) if author is not None else (None, None)
        return ComposedLine(moved, edit, location, is_string)

    def render(self, first: int, last: int, regions: Sequence[_Region]) -> Iterator[ComposedLine]:
        """What stands for some of upstream's lines."""
        number = first
        for region in regions:
            yield from self._plain(number, region.first - 1)
            yield from self._filled(region)
            number = region.last + 1
        yield from self._plain(number, last)

    def _plain(self, first: int, last: int) -> Iterator[ComposedLine]:
        for number in range(first, last + 1):
            yield from self.by_number[number]

    def _filled(self, region: _Region) -> Iterator[ComposedLine]:
        """A region's template with upstream's lines where its ``...`` is."""
        indent = self.source.indent(region.first).removeprefix(self.indent)
        for line in region.template.lines:
            if line.rest is not None:
                for kept in self.render(region.first, region.last, region.inner):
                    is_fixed = kept.is_string or not kept.text.strip()
                    yield kept if is_fixed else replace(kept, text=f"{line.rest}{kept.text}")
            else:
                text = line.text if line.is_string or not line.text.strip() else f"{indent}{line.text}"
                yield ComposedLine(text, region.edit, line.location, line.is_string)


def _changed_texts(source: SourceFile, pieces: list[Edit]) -> _Texts:
    """The lines that pieces of text make, and whose they are, by the first line of each group that they change."""
    starts = source.line_starts
    groups: list[tuple[int, int, list[Edit]]] = []
    for piece in sorted(pieces, key=lambda p: (p.start, p.end)):
        first, last = (source.text.count("\n", 0, offset) + 1 for offset in (piece.start, piece.end))
        if groups and first <= groups[-1][1]:
            groups[-1] = (groups[-1][0], max(last, groups[-1][1]), [*groups[-1][2], piece])
        else:
            groups.append((first, last, [piece]))
    texts: _Texts = {}
    for first, last, edits in groups:
        offset = starts[first - 1]
        moved = [replace(edit, start=edit.start - offset, end=edit.end - offset) for edit in edits]
        text, written = apply_edits(source.text[offset : starts[last] - 1], moved)
        authors = {number: w.origin for w in written for number in range(w.first, w.last + 1)}
        texts |= {number: [] for number in range(first, last + 1)}
        texts[first] = [(line, authors.get(number)) for number, line in enumerate(text.split("\n"), 1)]
    return texts


def _string_lines(lines: Sequence[str], indent: str) -> set[int]:
    """Which lines of an indented function, from 0, start inside a string literal; none if it cannot be parsed."""
    head = "class _:\n" if indent else ""
    try:
        tree = ast.parse(head + "\n".join(lines))
    except SyntaxError:  # reported once all edits are in
        return set()
    return {number - 1 - bool(indent) for number in string_lines(tree)}
