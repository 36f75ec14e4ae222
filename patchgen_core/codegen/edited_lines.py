"""Which lines of a generated module come from edits, and from which lines of the config."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.errors import Location
from patchgen_core.syntax.forms import is_same_syntax
from patchgen_core.syntax.nodes import FUNCTIONS, Definition, methods
from patchgen_core.syntax.source import SourceFile


@dataclass(frozen=True)
class EditedLine:
    """The edit that a line comes from, and the line of the config."""

    edit: PlannedPatch
    location: Location


def find_edited_lines(patches: Iterable[PlannedPatch], source: SourceFile) -> dict[int, EditedLine]:
    """The lines of a generated module that edits wrote, whatever ruff has made of their layout.

    The rest of an edited function is upstream's.
    """
    lines: dict[int, EditedLine] = {}
    for patch in patches:
        if not patch.lines or patch.replacement is None:
            continue
        for theirs in _results(patch, source):
            text = "\n".join(source.lines[theirs.lineno - 1 : theirs.end_lineno])
            for line, own in _pair_lines(text, patch.replacement.text):
                entry = patch.lines[own - 1]
                if entry.edit is not None and entry.location is not None:
                    lines.setdefault(theirs.lineno - 1 + line, EditedLine(entry.edit, entry.location))
    return lines


def edit_at(line: int, patch: PlannedPatch, lines: Mapping[int, EditedLine]) -> Location | None:
    """The line of the config that a line of an edited function is due to: of upstream's, that of the nearest edit."""
    own = [number for number, entry in lines.items() if any(entry.edit is edit for edit in patch.edits)]
    nearest = min(own, key=lambda number: (abs(number - line), number), default=None)
    return lines[nearest].location if nearest is not None else patch.patch.location


def _results(patch: PlannedPatch, source: SourceFile) -> Iterator[Definition]:
    """What a generated module has for an edited function."""
    for node in source.index.definitions.get(patch.dotted.partition(".")[0], []):
        if patch.method:
            yield from methods(node, patch.method, patch.accessor)
        elif isinstance(node, FUNCTIONS):
            yield node


@functools.lru_cache(maxsize=128)
def _pair_lines(theirs: str, ours: str) -> tuple[tuple[int, int], ...]:
    """The lines, from 1, of a formatted function where nodes of it start and end, each with that of the function as it
    was composed; where a block ends is left out."""
    is_indented = theirs[:1].isspace()
    module = ast.parse(f"class _:\n{theirs}" if is_indented else theirs)
    function = module.body[0].body[0] if is_indented and isinstance(module.body[0], ast.ClassDef) else module.body[0]
    lines: dict[tuple[int, int], None] = {}
    for node, twin in _pairs(function, ast.parse(ours).body[0]):
        for name in ("lineno", "end_lineno"):
            line, own = getattr(node, name, None), getattr(twin, name, None)
            is_end_of_block = name == "end_lineno" and isinstance(node, ast.stmt) and hasattr(node, "body")
            if line is not None and own is not None and not is_end_of_block:
                lines[line - is_indented, own] = None
    return tuple(lines)


def _pairs(theirs: ast.AST, ours: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The nodes of a formatted function beside those that they were; where ruff rewrote code, statements that read
    the same alone."""
    pairs = list(zip(_nodes(theirs), _nodes(ours)))
    if all(type(node) is type(twin) for node, twin in pairs):
        yield from pairs
        return
    left = [statement for statement in ast.walk(ours) if isinstance(statement, ast.stmt)]
    for node in (statement for statement in ast.walk(theirs) if isinstance(statement, ast.stmt)):
        same = next((twin for twin in left if is_same_syntax(node, twin)), None)
        if same is not None:
            left.remove(same)
            yield from zip(ast.walk(node), ast.walk(same))


def _nodes(function: ast.AST) -> list[ast.AST]:
    """What a function holds, its decorators and name aside."""
    parts = [value for name, value in ast.iter_fields(function) if name != "decorator_list"]
    entries = (entry for value in parts for entry in (value if isinstance(value, list) else [value]))
    return [node for entry in entries if isinstance(entry, ast.AST) for node in ast.walk(entry)]
