"""The names that replacements and helpers go by in the generated module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from patchgen_core.codegen.relative_imports import ImportPlaces, absolute_code
from patchgen_core.codegen.renaming import map_prefixes, rename_definition, rename_globals, wrap_original
from patchgen_core.codegen.targets import PlannedHelper, PlannedPatch
from patchgen_core.config.declarations import WRAPPERS
from patchgen_core.config.replacement import Replacement
from patchgen_core.errors import PatchgenError, Problem


def settle_names(
    patches: Sequence[PlannedPatch], helpers: Sequence[PlannedHelper], places: ImportPlaces | None = None
) -> tuple[list[PlannedPatch], list[PlannedHelper], list[Problem]]:
    """Give every replacement its target's name, and every reference to one as well.

    What a name in a replacement refers to is decided in the namespace of the file it stands in: one that
    is bound to the object of another patch or helper becomes what the generated module calls that, unless its
    ``name_map`` leads to a helper of its own. ``places`` says where relative imports lead.
    """
    added = frozenset(helper.name for helper in helpers)
    names_by_id = _name_objects(patches, helpers)
    problems: list[Problem] = []
    settled_patches, settled_helpers = [], []
    for patch in patches:
        try:
            settled_patches.append(replace(patch, replacement=_settle_patch(patch, names_by_id, added, places)))
        except PatchgenError as error:
            problems += error.problems
    for helper in helpers:
        try:
            settled_helpers.append(replace(helper, replacement=_settle_helper(helper, names_by_id, added, places)))
        except PatchgenError as error:
            problems += error.problems
    return settled_patches, settled_helpers, problems


def generated_names(
    patch: PlannedPatch, patches: Sequence[PlannedPatch], helpers: Sequence[PlannedHelper]
) -> dict[str, str]:
    """What the generated module calls the globals of an unsettled replacement that stand for declared objects."""
    if patch.replacement is None:
        return {}
    names_by_id = _name_objects(patches, helpers)
    return _patch_names(patch, patch.replacement, names_by_id, frozenset(helper.name for helper in helpers))


def _name_objects(patches: Sequence[PlannedPatch], helpers: Sequence[PlannedHelper]) -> dict[int, str | None]:
    """What the generated module calls the objects that a config declares, by their identity."""
    names_by_id: dict[int, str | None] = {}
    for patch in patches:
        if patch.replacement is not None and not patch.patch.is_edit:  # the code of an edit has no name of its own
            key = id(patch.patch.replacement)
            # An object with two targets has no one name: only a reference in its own body has.
            names_by_id[key] = patch.dotted if names_by_id.get(key, patch.dotted) == patch.dotted else None
    for helper in helpers:
        names_by_id.setdefault(id(helper.helper.definition), helper.name)
    return names_by_id


def _settle_patch(
    patch: PlannedPatch, names_by_id: Mapping[int, str | None], added: frozenset[str], places: ImportPlaces | None
) -> Replacement | None:
    declared = patch.patch
    if patch.replacement is None:
        return None
    names = _patch_names(patch, patch.replacement, names_by_id, added)
    mapped = _map_names(patch.replacement, declared.name_map)
    if declared.kind in WRAPPERS:
        mapped = wrap_original(mapped, declared.target.split(".")[0], patch.method)
    return _settle(mapped, names, patch.method or declared.target, declared.name_map, places)


def _patch_names(
    patch: PlannedPatch, replacement: Replacement, names_by_id: Mapping[int, str | None], added: frozenset[str]
) -> dict[str, str]:
    declared = patch.patch
    own = None if declared.is_edit else declared.replacement
    return _references(replacement, names_by_id, own, patch.dotted, declared.name_map, added)


def _settle_helper(
    helper: PlannedHelper, names_by_id: Mapping[int, str | None], added: frozenset[str], places: ImportPlaces | None
) -> Replacement:
    declared = helper.helper
    own, name_map = declared.definition, declared.name_map
    names = _references(helper.replacement, names_by_id, own, helper.name, name_map, added)
    return _settle(_map_names(helper.replacement, name_map), names, helper.name, name_map, places)


def _references(
    replacement: Replacement,
    names_by_id: Mapping[int, str | None],
    own: Any,
    own_name: str,
    name_map: Mapping[str, str],
    added: frozenset[str],
) -> dict[str, str]:
    """New names for globals that stand for declared objects, but not where ``name_map`` leads to a helper."""
    names = {}
    for used, value in replacement.namespace.items():
        name = own_name if own is not None and value is own else names_by_id.get(id(value))
        if name is None or not replacement.mentions(used):
            continue
        mapped = map_prefixes(used, name_map)
        if mapped == used or mapped not in added:
            names[used] = name
    return dict(sorted(names.items()))


def _map_names(replacement: Replacement, name_map: Mapping[str, str]) -> Replacement:
    if not name_map:
        return replacement
    return replace(
        replacement,
        comments=tuple(map_prefixes(line, name_map) for line in replacement.comments),
        decorators=tuple(map_prefixes(text, name_map) for text in replacement.decorators),
        text=map_prefixes(replacement.text, name_map),
    )


def _settle(
    mapped: Replacement, names: Mapping[str, str], name: str, name_map: Mapping[str, str], places: ImportPlaces | None
) -> Replacement:
    """Rename what a mapped replacement refers to, and the definition itself; then make imports absolute."""
    references = {map_prefixes(old, name_map): new for old, new in names.items()}
    settled = rename_definition(rename_globals(mapped, references), name)
    text = absolute_code(settled.text, settled.package, settled.location, places)
    return settled if text == settled.text else settled.with_text(text)
