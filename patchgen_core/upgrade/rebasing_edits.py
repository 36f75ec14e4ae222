"""Edits carried over from one release of upstream to another, as they are to be written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from patchgen_core.authoring.edits.arguments import text_literal
from patchgen_core.authoring.edits.needed_imports import missing_imports
from patchgen_core.config.declarations import Patch, PatchKind
from patchgen_core.errors import Location
from patchgen_core.syntax.diffs import unified_diff
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.carrying.carried_edit import CarriedEdit, DeclaredEdit
from patchgen_core.upgrade.merging.merge import mark_conflicts
from patchgen_core.upgrade.release_module import ReleaseModule
from patchgen_core.upgrade.results import ArgumentChange, Merged, Rebase

CALLS: dict[PatchKind, str] = {
    "method_edit": "edit_method",
    "function_edit": "edit_function",
    "code_replacement": "replace_code",
    "code_deletion": "delete_code",
    "parameter_addition": "add_parameter",
    "parameter_removal": "remove_parameter",
}
"""What declares each kind of edit that has a place."""


def rebase_edit(carried: CarriedEdit, edit: DeclaredEdit, new: ReleaseModule, sources: SourceCache) -> Rebase | None:
    """An edit as it would be for the new release; None where there is nothing to carry over."""
    if carried.state in ("gone", "ambiguous", "now upstream"):
        return None
    patch, replacement, location = edit.patch, edit.planned.replacement, place_of(edit)
    assert patch.location is not None
    ours, text = edit.text, carried.edit.text
    if carried.conflict is not None:
        merged = Merged(ours, "syntax", (carried.conflict,), carried.notes)
        marked = mark_conflicts(ours, merged) if ours else ""
        declaration = read_declaration(location, sources) if patch.used_at is None else ""
        return Rebase(location, ours, merged, "", marked, is_edit=True, declaration=declaration)
    arguments = tuple(_argument_changes(patch, carried.edit.patch, patch.location))
    needs: tuple[str, ...] = ()
    if text != ours:
        needs = missing_imports(text, sources.get(Path(location.file)), new.source, new.upstream)
    before, after = (declaration_text(one) for one in (edit, carried.edit))
    name = replacement.name if replacement is not None else CALLS.get(patch.kind, patch.kind)
    diff = unified_diff(before, after, name, f"{name} (carried over)") if before != after else ""
    merged = Merged(text, "same" if text == ours else "syntax", (), carried.notes)
    return Rebase(location, ours, merged, diff, "", needs, True, arguments)


def place_of(edit: DeclaredEdit) -> Location:
    """Where the statement stands that declares an edit."""
    replacement, location = edit.planned.replacement, edit.patch.location
    assert location is not None
    return replacement.location if replacement is not None else location


def read_declaration(location: Location, sources: SourceCache) -> str:
    """The statement of a config that declares an edit, as it stands there; empty for one that is no statement of the
    module."""
    source = sources.get(Path(location.file))
    for node in source.tree.body:
        if source.first_line(node) <= location.line <= source.last_line(node):
            return "\n".join(source.lines[source.first_line(node) - 1 : source.last_line(node)])
    return ""


def _argument_changes(old: Patch, new: Patch, location: Location) -> Iterator[ArgumentChange]:
    calls = _call(old), _call(new)
    pairs = zip(_arguments(old), _arguments(new))
    changes = [(name, one, other) for (name, one), (_, other) in pairs if one != other]
    if not changes and calls[0] != calls[1]:
        changes = [("", "", "")]
    yield from (ArgumentChange(location, *calls, *change) for change in changes)


def _call(patch: Patch) -> str:
    """What is called to declare an edit; edits that targets share are not told apart by theirs."""
    is_shared = patch.used_at is not None and patch.kind in ("method_edit", "function_edit")
    return "edit" if is_shared else CALLS.get(patch.kind, "")


def _arguments(patch: Patch) -> list[tuple[str, str]]:
    """The arguments that say where an edit is and what comes there, by their names."""
    if patch.kind == "code_replacement":
        return [("old", patch.at), ("new", patch.code)]
    if patch.kind == "code_deletion":
        return [("code", patch.at)]
    if patch.kind == "parameter_removal":
        return [("parameter", patch.at)]
    if patch.kind == "parameter_addition":
        return [("parameter", patch.code), ("before" if patch.is_before else "after", patch.at)]
    return [("at", patch.at)]


def declaration_text(edit: DeclaredEdit, shared: str = "edits") -> str:
    """An edit as reports show it: the call that declares it, and its function; ``shared`` holds those of targets."""
    patch = edit.patch
    is_shared = patch.used_at is not None
    call = f"{shared}.{_call(patch)}" if is_shared else f"config.{CALLS.get(patch.kind, 'edit_class')}"
    arguments = [] if is_shared else [text_literal(patch.target)]
    for name, text in _arguments(patch):
        is_first = name in ("old", "new", "code", "parameter")
        arguments += [text_literal(text) if is_first else f"{name}={text_literal(text)}"] if text else []
    has_lines = any("\n" in argument for argument in arguments)
    inside = ",\n".join(f"    {argument}" for argument in arguments) if has_lines else ", ".join(arguments)
    head = f"{call}(\n{inside},\n)" if has_lines else f"{call}({inside})" if arguments else call
    return f"@{head}\n{edit.text}\n" if edit.text else f"{head}\n"
