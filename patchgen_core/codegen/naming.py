"""The names that replacements and helpers go by in the generated module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchgen_core.codegen.imports import absolute_imports
from patchgen_core.codegen.rename import map_prefixes, rename_definition, rename_globals
from patchgen_core.codegen.replacement import Replacement
from patchgen_core.codegen.targets import PlannedHelper, PlannedPatch


def settle_names(
    patches: Sequence[PlannedPatch], helpers: Sequence[PlannedHelper]
) -> tuple[list[PlannedPatch], list[PlannedHelper]]:
    """Give every replacement its target's name, and every reference to one as well.

    What a name in a replacement refers to is decided in the namespace of the file it stands in: one that
    is bound to the object of another patch or helper becomes what the generated module calls that.
    """
    known: dict[int, str | None] = {}
    for patch in patches:
        if patch.replacement is not None:
            key = id(patch.patch.replacement)
            # An object with two targets has no one name: only a reference in its own body has.
            known[key] = patch.dotted if known.get(key, patch.dotted) == patch.dotted else None
    for helper in helpers:
        known.setdefault(id(helper.helper.definition), helper.name)

    settled_patches = []
    for patch in patches:
        if patch.replacement is not None:
            declared = patch.patch
            names = _references(patch.replacement, known, declared.replacement, patch.dotted)
            name = patch.method or declared.target
            patch = replace(patch, replacement=_settle(patch.replacement, names, name, declared.name_map))
        settled_patches.append(patch)
    settled_helpers = []
    for helper in helpers:
        names = _references(helper.replacement, known, helper.helper.definition, helper.name)
        settled = _settle(helper.replacement, names, helper.name, helper.helper.name_map)
        settled_helpers.append(replace(helper, replacement=settled))
    return settled_patches, settled_helpers


def _references(replacement: Replacement, known: Mapping[int, str | None], own: Any, own_name: str) -> dict[str, str]:
    """New names for the globals of a replacement that stand for declared objects."""
    names = {}
    for used in replacement.names:
        value = replacement.namespace.get(used)
        name = own_name if value is own else known.get(id(value))
        if name is not None:
            names[used] = name
    return names


def _settle(replacement: Replacement, names: Mapping[str, str], name: str, name_map: Mapping[str, str]) -> Replacement:
    settled = rename_definition(rename_globals(replacement, names), name)
    mapped = replace(
        settled,
        comments=tuple(map_prefixes(line, name_map) for line in settled.comments),
        decorators=tuple(map_prefixes(text, name_map) for text in settled.decorators),
        text=map_prefixes(settled.text, name_map),
    )
    text = absolute_imports(mapped.text, replacement.package, Path(replacement.location.file))
    return mapped if text == mapped.text else mapped.with_text(text)
