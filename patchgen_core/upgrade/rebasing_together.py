"""All edits of one target carried over as one: what they make of it, merged with upstream's change, as edits anew."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from patchgen_core.authoring.slim.edit_texts import Holder, edit_blocks
from patchgen_core.authoring.slim.function_edits import bound_names, find_edits
from patchgen_core.authoring.slim.parameters import NoEdits
from patchgen_core.build.normalize import format_texts
from patchgen_core.codegen.edited_functions import compose_function
from patchgen_core.codegen.renaming import map_prefixes
from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.config.declarations import Patch
from patchgen_core.config.loading import LoadedConfig
from patchgen_core.config.replacement import Replacement
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.syntax.diffs import unified_diff
from patchgen_core.syntax.forms import PROSE, is_same_code
from patchgen_core.syntax.nodes import FUNCTIONS, string_lines
from patchgen_core.syntax.source import SourceCache, parse_source
from patchgen_core.upgrade.carrying.carried_edit import DeclaredEdit
from patchgen_core.upgrade.carrying.definitions import ReleaseDefinition
from patchgen_core.upgrade.merging.merge import merge_definition
from patchgen_core.upgrade.rebasing_edits import declaration_text, place_of
from patchgen_core.upgrade.results import Rebase, StatementChange


def rebase_together(
    project: Project,
    loaded: LoadedConfig,
    edits: Sequence[DeclaredEdit],
    sides: tuple[ReleaseDefinition, ReleaseDefinition],
    sources: SourceCache,
    has_doubts: Callable[[str], bool],
) -> Rebase | None:
    """What all edits of a function, in the config's order, have to become; None where that cannot be told, or has
    doubts."""
    old, new = sides
    places = [place_of(edit) for edit in edits]
    holder = _holder(loaded, edits, places, sources)
    if holder is None or not isinstance(old.node, FUNCTIONS) or not isinstance(new.node, FUNCTIONS):
        return None
    try:
        lines = compose_function(old.source, old.node, [edit.settled for edit in edits], old.package)
        ours = "\n".join(line.text for line in lines)
        merged = merge_definition(old.text.source.text.rstrip("\n"), ours, new.text.source.text.rstrip("\n"))
        is_clean = merged.is_clean and not has_doubts(merged.text)
        blocks = _blocks(project, loaded, edits, new, merged.text, holder) if is_clean else []
    except (NoEdits, PatchgenError):
        return None
    if not blocks or not _is_made(blocks, edits[0].planned, new, merged.text):
        return None
    unmapped = {new: old for old, new in edits[0].patch.name_map.items()}
    blocks = [map_prefixes(block, unmapped) for block in blocks]
    statements = (
        StatementChange(places[0], tuple(blocks)),
        *(StatementChange(place, ()) for place in places[1:]),
    )
    before, after = "\n".join(declaration_text(edit, holder.name) for edit in edits), "\n".join(blocks)
    name = holder.target or holder.name
    diff = unified_diff(before, after, f"edits of {name}", f"edits of {name} (carried over)")
    return Rebase(places[0], "", replace(merged, text=after), diff, is_edit=True, statements=statements)


def _holder(
    loaded: LoadedConfig, edits: Sequence[DeclaredEdit], places: Sequence[Location], sources: SourceCache
) -> Holder | None:
    """What the edits are declared on: their config, or what holds all of those that targets share; None for both."""
    shared = [edit.patch.used_at for edit in edits]
    made_at = edits[0].patch.comments_at
    if all(place is None for place in shared):
        is_own = all(place.file == str(loaded.path) for place in places)
        has_map = any(edit.patch.name_map for edit in edits)
        return Holder(loaded.name, edits[0].patch.target) if is_own and not has_map else None
    if len(set(shared)) > 1 or made_at is None or any(place.file != made_at.file for place in places):
        return None
    for node in sources.get(Path(made_at.file)).tree.body:
        if isinstance(node, ast.Assign) and node.lineno == made_at.line and isinstance(node.targets[0], ast.Name):
            return Holder(node.targets[0].id)
    return None


def _blocks(
    project: Project,
    loaded: LoadedConfig,
    edits: Sequence[DeclaredEdit],
    new: ReleaseDefinition,
    text: str,
    holder: Holder,
) -> list[str]:
    """The declarations of the edits that make upstream's new function a text."""
    assert isinstance(new.node, FUNCTIONS)
    target = parse_source(loaded.path, f"{text.rstrip()}\n")
    names = [edit.planned.replacement.name for edit in edits if edit.planned.replacement is not None]
    name = names[0] if names else edits[0].patch.target.replace(".", "_").lower()
    reason = next((edit.patch.description for edit in edits if edit.patch.description), "")
    options = [f"description={reason!r}"] if reason and holder.target else []
    differences = find_edits(new.source, new.node, target)
    blocks = edit_blocks(differences, holder, name, options, bound_names(new.node, target))
    return format_texts(blocks, loaded.path.parent, project)


def _is_made(blocks: Sequence[str], like: PlannedPatch, new: ReleaseDefinition, text: str) -> bool:
    """Whether declarations make a text of upstream's new function."""
    assert isinstance(new.node, FUNCTIONS)
    lines = compose_function(new.source, new.node, [_planned(block, like) for block in blocks], new.package)
    made, wanted = (ast.parse(code).body[0] for code in ("\n".join(line.text for line in lines), text))
    return is_same_code(made, wanted, ignore=PROSE)


def _planned(block: str, like: PlannedPatch) -> PlannedPatch:
    """The edit that a declaration declares."""
    (node,) = ast.parse(block).body
    function = node if isinstance(node, ast.FunctionDef) else None
    declaring = function.decorator_list[0] if function is not None else getattr(node, "value", None)
    assert isinstance(declaring, ast.expr)
    call = declaring if isinstance(declaring, ast.Call) else ast.Call(declaring, [], [])
    assert isinstance(call.func, ast.Attribute)
    given = [ast.literal_eval(argument) for argument in call.args]
    given = given[1:] if like.patch.used_at is None else given
    named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    patch = Patch("method_edit", like.patch.target, location=like.patch.location)
    if function is not None:
        location = like.patch.location
        assert location is not None
        lines = block.split("\n")[function.lineno - 1 :]
        text = "\n".join(lines).rstrip()
        replacement = Replacement(
            function.name,
            False,
            "",
            (),
            (),
            text,
            frozenset(n - 1 for n in string_lines(ast.parse(text))),
            {},
            location,
        )
        kind = "method_edit" if "." in like.patch.target else "function_edit"
        patch = replace(patch, kind=kind, at=named.get("at", ""))  # type: ignore[arg-type]
        return replace(like, patch=patch, replacement=replacement)
    kinds = {"replace_code": "code_replacement", "delete_code": "code_deletion", "add_parameter": "parameter_addition"}
    kind = kinds.get(call.func.attr, "parameter_removal")
    at = given[0] if kind in ("code_replacement", "code_deletion", "parameter_removal") else named.get("after", "")
    code = given[1] if kind == "code_replacement" else given[0] if kind == "parameter_addition" else ""
    return replace(like, patch=replace(patch, kind=kind, at=at, code=code), replacement=None)  # type: ignore[arg-type]
