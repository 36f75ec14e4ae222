"""Hashes of what a config declares, wherever its parts stand: what is known of a plan once it is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any

from patchgen_core.build.results import Declared
from patchgen_core.codegen.added_code import PositionedBlock
from patchgen_core.codegen.plan import Plan
from patchgen_core.config.declarations import Allowance, ImportSpec, Patch, Tolerance
from patchgen_core.config.input_recording import input_name
from patchgen_core.config.replacement import Replacement
from patchgen_core.errors import Location
from patchgen_core.files import text_digest
from patchgen_core.project.project import Project

_PLACES = ("location", "used_at", "comments_at")
_NAMES = ("drop_imported_names", "exclude", "dropped_decorators")


def hash_declared(plan: Plan, project: Project) -> Declared:
    """The hashes of a plan, the same wherever the project lies."""
    names: dict[str, str] = {}
    lines: list[tuple[str, int]] = []
    for place in _places(plan):
        if place is None:
            lines.append(("", 0))
            continue
        if place.file not in names:
            names[place.file] = input_name(project, Path(place.file))
        lines.append((names[place.file], place.line))
    ranks = {line: rank for rank, line in enumerate(sorted(set(lines)))}
    toy = plan.config.toy_config
    values = [input_name(project, Path(toy)) if isinstance(toy, str) else toy, *_values(plan)]
    ranked = [(file, ranks[file, line]) for file, line in lines]
    return Declared(text_digest(repr((values, ranked))), text_digest(repr(lines)))


def _values(plan: Plan) -> list[Any]:
    """All that checks may see of a plan beside upstream's module and the lines of the config."""
    config = plan.config
    declared = [each for patch in plan.patches for each in patch.declared]
    return [
        [plan.label, plan.fingerprint, config.transformers_version],
        [[*map(_ALLOWANCE, config.allowed)], [*map(_TOLERANCE, config.tolerances)], [*map(_IMPORT, plan.imports)]],
        [(patch.dotted, patch.accessor, patch.added, len(patch.declared)) for patch in plan.patches],
        [(*_PATCH(each.patch), _source(each.replacement)) for each in declared],
        [(h.helper.after, dict(h.helper.name_map), _source(h.replacement)) for h in plan.helpers],
        [
            [text for text, _ in plan.post_import_blocks],
            [(block.target, block.text) for block in plan.positioned_blocks],
        ],
        [plan.dropped, plan.excluded, [decorator.label for decorator in plan.decorators]],
        [[*map(str, getattr(config, name))] for name in _NAMES],
    ]


def _source(replacement: Replacement | None) -> tuple[Any, ...]:
    return (replacement.name, replacement.package, replacement.is_edit) if replacement is not None else ()


def _places(plan: Plan) -> Iterator[Location | None]:
    config = plan.config
    yield config.location
    placed: list[Allowance | Tolerance | ImportSpec | PositionedBlock] = [*config.allowed, *config.tolerances]
    for each in (*placed, *plan.imports, *plan.positioned_blocks):
        yield each.location
    for patch in plan.patches:
        for one in patch.declared:
            yield from (one.patch.location, one.patch.used_at, one.patch.comments_at)
            yield one.replacement.location if one.replacement is not None else None
    for helper in plan.helpers:
        yield from (helper.helper.location, helper.replacement.location)
    for _, location in plan.post_import_blocks:
        yield location
    for name in _NAMES:
        for entry in getattr(config, name):
            yield getattr(entry, "location", None)


def _getter(kind: type[Any], *left_out: str) -> Callable[[Any], Any]:
    """What gives the values of a declaration, but for its places and what is left out."""
    names = [field.name for field in fields(kind) if field.name not in (*_PLACES, *left_out)]
    return attrgetter(*names)


_PATCH = _getter(Patch, "replacement")
_ALLOWANCE, _TOLERANCE, _IMPORT = map(_getter, (Allowance, Tolerance, ImportSpec))
