"""The edits of a config, gathered by what they edit, with what they make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from patchgen_core.codegen.decorators import meaning
from patchgen_core.codegen.edit_checks import bound_names
from patchgen_core.codegen.edited_classes import class_edits
from patchgen_core.codegen.edited_functions import compose_function
from patchgen_core.codegen.targets import ComposedLine, PlannedPatch
from patchgen_core.config.replacement import Replacement
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.syntax.nodes import FUNCTIONS, Function, methods
from patchgen_core.syntax.source import SourceFile


def compose_edits(
    patches: Sequence[PlannedPatch], source: SourceFile, package: str
) -> tuple[list[PlannedPatch], list[Problem]]:
    """The patches with all edits of a target as one, at the place of the first; and what is wrong with edits.

    ``package`` is the one that upstream's relative imports start from.
    """
    by_target: dict[tuple[str, str], list[PlannedPatch]] = {}
    for patch in patches:
        if patch.patch.is_edit:
            by_target.setdefault((patch.dotted, patch.accessor), []).append(patch)
    results: list[PlannedPatch] = []
    problems: list[Problem] = []
    for patch in patches:
        if not patch.patch.is_edit:
            results.append(patch)
            continue
        edits = by_target.pop((patch.dotted, patch.accessor), [])
        try:
            results += [_compose(edits, source, package)] if edits else []
        except PatchgenError as error:
            problems += error.problems
    return results, problems


def edited_function(patch: PlannedPatch) -> Function | None:
    """Upstream's function that edits are of; None for a class."""
    (node,) = patch.nodes
    if isinstance(node, FUNCTIONS):
        return node
    return methods(node, patch.method, patch.accessor)[0] if patch.method else None


def upstream_names(patch: PlannedPatch) -> set[str]:
    """The names that upstream's text of an edited function binds."""
    function = edited_function(patch)
    return bound_names(function, ()) if function is not None else set()


_Target = tuple[str, str, str]
_COMPOSED: WeakKeyDictionary[SourceFile, dict[_Target, PlannedPatch]] = WeakKeyDictionary()
"""What edits last made of each target of an upstream module."""


def _compose(edits: Sequence[PlannedPatch], source: SourceFile, package: str) -> PlannedPatch:
    """All edits of a target as one; what they made last time, if they are the same."""
    composed = _COMPOSED.setdefault(source, {})
    target = (edits[0].dotted, edits[0].accessor, package)
    last = composed.get(target)
    if last is None or not _are_same(last.edits, edits):
        composed[target] = _compose_anew(edits, source, package)
        return composed[target]
    by_id = {id(old): new for old, new in zip(last.edits, edits)}
    lines = tuple(line if line.edit is None else replace(line, edit=by_id[id(line.edit)]) for line in last.lines)
    return replace(edits[0], edits=tuple(edits), lines=lines, replacement=last.replacement)


def _are_same(ours: Sequence[PlannedPatch], theirs: Sequence[PlannedPatch]) -> bool:
    """Whether edits say the same in the same places; the functions that say it may be those of another execution."""

    def declared(edits: Sequence[PlannedPatch]) -> list[PlannedPatch]:
        return [replace(edit, patch=replace(edit.patch, replacement=None)) for edit in edits]

    return len(ours) == len(theirs) and declared(ours) == declared(theirs)


def _compose_anew(edits: Sequence[PlannedPatch], source: SourceFile, package: str) -> PlannedPatch:
    first = edits[0]
    function = edited_function(first)
    if function is None:
        class_edits(source, first.nodes[0], edits)  # for what is wrong with them
        return replace(first, edits=tuple(edits), replacement=None)
    lines = compose_function(source, function, edits, package)
    return replace(first, edits=tuple(edits), lines=lines, replacement=_replacement(edits, lines, function, package))


def _replacement(
    edits: Sequence[PlannedPatch], lines: Sequence[ComposedLine], function: Function, package: str
) -> Replacement:
    """What edits make of a function, as a replacement of it."""
    own = [edit.replacement for edit in edits if edit.replacement is not None]
    decorators = {meaning(text): text for replacement in own for text in replacement.decorators}
    location = edits[0].patch.location
    assert isinstance(location, Location)
    return Replacement(
        name=function.name,
        is_class=False,
        package=package,
        comments=tuple(line for edit in edits for line in _comments(edit)),
        decorators=tuple(decorators.values()),
        text="\n".join(line.text for line in lines),
        string_lines=frozenset(number for number, line in enumerate(lines) if line.is_string),
        namespace={},
        location=location,
    )


def _comments(edit: PlannedPatch) -> tuple[str, ...]:
    return (*edit.comments, *(edit.replacement.comments if edit.replacement is not None else ()))
