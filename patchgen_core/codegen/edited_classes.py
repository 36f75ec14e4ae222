"""A class statement of upstream's with the edits of a config in it: bases, decorators and attributes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.codegen.edit_places import locate_expressions, locate_statements, read_pattern
from patchgen_core.codegen.quoted_code import NewCode, delete_item
from patchgen_core.codegen.renaming import map_prefixes
from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.config.declarations import Patch
from patchgen_core.config.replacement import Replacement
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.syntax.edits import Edit
from patchgen_core.syntax.index import assigned_names
from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS, docstring_of, is_filler, string_lines, without_docstring
from patchgen_core.syntax.patterns import find_statements, is_rest
from patchgen_core.syntax.source import SourceFile, parse_source, shift


@dataclass(frozen=True)
class ClassText:
    """What edits put into a class: changes of its text, and statements for the start and the end of its body."""

    changes: tuple[tuple[Edit, PlannedPatch], ...]
    top: tuple[tuple[str, PlannedPatch], ...]
    bottom: tuple[tuple[str, PlannedPatch], ...]


def class_edits(source: SourceFile, node: ast.AST, edits: Sequence[PlannedPatch]) -> ClassText:
    """What the edits of a class make of it; statements are at column 0. A PatchgenError for what cannot be done."""
    assert isinstance(node, ast.ClassDef)
    changes: list[tuple[Edit, PlannedPatch]] = []
    top: list[tuple[str, PlannedPatch]] = []
    bottom: list[tuple[str, PlannedPatch]] = []
    for edit in edits:
        if edit.replacement is None:
            changes += [(change, edit) for change in _quoted(source, node, edit)]
            continue
        _add_statements(source, node, edit, changes, top, bottom)
        changes += [(change, edit) for change in _bases(source, node, edit)]
    changes.sort(key=lambda change: (change[0].start, change[0].end))
    for number, (change, edit) in enumerate(changes[1:]):
        before, other = changes[number]
        if change.start < before.end:
            message = f"{edit.label} overlaps {other.label} at {other.patch.location}"
            raise PatchgenError(message, edit.patch.location, "Make them one edit.")
    return ClassText(tuple(changes), tuple(top), tuple(bottom))


def _add_statements(
    source: SourceFile,
    node: ast.ClassDef,
    edit: PlannedPatch,
    changes: list[tuple[Edit, PlannedPatch]],
    top: list[tuple[str, PlannedPatch]],
    bottom: list[tuple[str, PlannedPatch]],
) -> None:
    assert edit.replacement is not None
    ours = parse_source(Path(edit.replacement.location.file), edit.replacement.text)
    body = [s for s in without_docstring(ours.tree.body[0]) if not isinstance(s, ast.Pass)]
    has_rest = any(map(is_rest, body))
    below = False
    for statement in body:
        if is_rest(statement):
            below = True
            continue
        location = _place(edit.replacement, edit.patch, statement.lineno - 1)
        names = _attribute_names(statement)
        if isinstance(statement, FUNCTIONS) or not names:
            what = f"'{statement.name}'" if isinstance(statement, FUNCTIONS) else f"'{ast.unparse(statement)}'"
            hint = "Use override_method to add or replace a method, and edit_method to change one."
            raise PatchgenError(f"{edit.label}: {what} is not an attribute with a value", location, hint)
        text = _statement_text(ours, statement)
        theirs = [s for s in node.body if set(names) & set(_attribute_names(s))]
        if len(theirs) > 1:
            message = f"{edit.label}: upstream assigns '{names[0]}' in several statements"
            raise PatchgenError(message, location, "Replace the one that is meant with replace_code.")
        if theirs:
            new = "\n".join(shift(text.split("\n"), "", source.indent(theirs[0].lineno), ())).lstrip()
            first = source.line_starts[source.first_line(theirs[0]) - 1] + len(source.indent(theirs[0].lineno))
            changes.append((Edit(first, source.end(theirs[0]), new), edit))
        elif below and has_rest:
            bottom.append((text, edit))
        else:
            top.append((text, edit))


def _attribute_names(statement: ast.stmt) -> list[str]:
    """The attributes that a statement of a class body binds, a class among them; none for a method."""
    return [statement.name] if isinstance(statement, ast.ClassDef) else assigned_names(statement)


def _place(replacement: Replacement, patch: Patch, offset: int) -> Location | None:
    own, declared = replacement.location, patch.location
    return declared if declared is not None and own.file != declared.file else Location(own.file, own.line + offset)


def _statement_text(source: SourceFile, statement: ast.stmt) -> str:
    """A statement of a class body at column 0, with the comments above it."""
    first, last = source.comment_line(statement), source.last_line(statement)
    keep = {line - first for line in string_lines(statement)}
    return "\n".join(shift(source.lines[first - 1 : last], source.indent(statement.lineno), "", keep))


def _bases(source: SourceFile, node: ast.ClassDef, edit: PlannedPatch) -> Iterator[Edit]:
    """The bases of an edit that upstream's class lacks, in front of those that it has."""
    assert edit.replacement is not None
    ours = parse_source(Path(edit.replacement.location.file), edit.replacement.text)
    cls = ours.tree.body[0]
    assert isinstance(cls, ast.ClassDef)
    if cls.keywords:
        message = f"{edit.label}: keywords of a class statement cannot be added"
        raise PatchgenError(message, edit.patch.location, "Use replace_class.")
    own = {ast.dump(base) for base in node.bases}
    new = [ours.segment(base) for base in cls.bases if ast.dump(base) not in own]
    if not new:
        return
    if node.bases or node.keywords:
        at = source.start(node.bases[0] if node.bases else node.keywords[0])
        yield Edit(at, at, f"{', '.join(new)}, ")
        return
    start = source.start(node)
    name_end = source.text.index(node.name, start + len("class")) + len(node.name)
    colon = source.text.index(":", name_end)
    yield Edit(name_end, colon, f"({', '.join(new)})")


def _quoted(source: SourceFile, node: ast.ClassDef, edit: PlannedPatch) -> Iterator[Edit]:
    """Replaced and deleted code of the class body itself, its methods aside."""
    patch, label = edit.patch, edit.label
    pattern = read_pattern(patch, label)
    own = [statement for statement in node.body if not isinstance(statement, DEFINITIONS)]
    body = ast.Module([ast.ClassDef(node.name, node.bases, node.keywords, own, [])], [])
    if pattern.expression is not None and not (patch.kind == "code_deletion" and find_statements(pattern, body)):
        matches = locate_expressions(pattern, patch, label, source, body)
        if patch.kind == "code_deletion":
            for match in matches:
                if match.nodes[0] in node.bases:
                    yield delete_item(source, [*node.bases, *(k.value for k in node.keywords)], match.nodes[0])
                    continue
                lists = (n for n in ast.walk(body) if isinstance(n, (ast.List, ast.Tuple, ast.Set)))
                holder = next((node for node in lists if match.nodes[0] in node.elts), None)
                if holder is None:
                    message = f"{label}: '{pattern.text}' is neither a statement nor an item"
                    raise PatchgenError(message, patch.location, "Use replace_code to say what is there instead.")
                yield delete_item(source, holder.elts, match.nodes[0])  # type: ignore[arg-type]
            return
        code = NewCode(map_prefixes(patch.code, patch.name_map), pattern.statements, patch, label, source)
        if code.expression is None:
            raise PatchgenError(f"{label}: the new code is not an expression, but the old one is", patch.location)
        for match in matches:
            yield from code.edits(match, None)
        return
    for match in locate_statements(pattern, patch, label, source, body):
        first, last = match.nodes[0], match.nodes[-1]
        assert isinstance(first, ast.stmt)
        assert isinstance(last, ast.stmt)
        text = ""
        if patch.kind == "code_replacement":
            code = NewCode(map_prefixes(patch.code, patch.name_map), pattern.statements, patch, label, source)
            text = "\n".join(shift(code.text(match).split("\n"), "", source.indent(first.lineno), ())).lstrip()
        elif len(match.nodes) == len([s for s in node.body if not is_filler(s) and s is not docstring_of(node)]):
            text = "pass"
        yield replace(Edit(source.start(first), source.end(last), text))
