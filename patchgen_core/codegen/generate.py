"""From a plan to the text of a generated module, before normalizing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen_core.codegen.added_code import below_imports, top_of
from patchgen_core.codegen.decorators import decorator_edits
from patchgen_core.codegen.header import header
from patchgen_core.codegen.imports import absolute_import_edits, import_statement, imported_names
from patchgen_core.codegen.patch_edits import Origin, helper_edits, helper_origin, helper_text, patch_edits
from patchgen_core.codegen.plan import Plan
from patchgen_core.codegen.removal import removal_edits
from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.edits import Edit, Written, apply_edits
from patchgen_core.syntax.source import SourceFile, shift


@dataclass(frozen=True)
class RawModule:
    """A generated module before normalizing; lines that ``written`` does not give to a declaration are upstream's."""

    text: str
    written: tuple[Written, ...]


def generate(plan: Plan) -> RawModule:
    """Apply a plan to its upstream module."""
    source = plan.source
    # Of what is inserted at one place, methods end a class, then come helpers and imports, then markers.
    changes, markers = patch_edits(plan)
    edits = [*changes, *helper_edits(plan), *_positioned(plan), *_insertions(plan), *markers]
    removals = removal_edits(source, plan.index, plan.excluded, plan.dropped)
    _refuse_removed(source, changes, removals)
    edits += removals
    edits += decorator_edits(source, plan.decorators)
    gone = [(edit.start, edit.end) for edit in edits if edit.end > edit.start]
    for edit in absolute_import_edits(source, plan.upstream.package):
        if not any(start <= edit.start and edit.end <= end for start, end in gone):
            edits.append(edit)
    body, written = apply_edits(source.text, edits)
    head = header(plan)
    lines = head.count("\n")
    moved = tuple(Written(w.first + lines, w.last + lines, w.origin) for w in written)
    return RawModule(head + body, moved)


def _refuse_removed(source: SourceFile, changes: Sequence[Edit], removals: Sequence[Edit]) -> None:
    """A patch must not be of what goes with a dropped import, as a fallback definition does."""
    for edit in changes:
        gone = next((r for r in removals if r.start < edit.end and edit.start < r.end), None)
        if gone is not None and isinstance(edit.origin, Origin):
            line = source.text.count("\n", 0, gone.start) + 1
            message = f"{edit.origin.label}: its target is taken out with upstream's line {line}"
            hint = "Remove the patch, or the drop_import_names or exclude_from_output that takes it out."
            raise PatchgenError(message, edit.origin.location, hint)


def absolute_upstream(plan: Plan) -> str:
    """Upstream's text with absolute imports: what a config without a patch generates."""
    return apply_edits(plan.source.text, absolute_import_edits(plan.source, plan.upstream.package))[0]


def _positioned(plan: Plan) -> Iterator[Edit]:
    """The blocks that follow definitions of upstream's, below the helpers there."""
    for block in plan.positioned_blocks:
        for node in block.after:
            lines = shift(block.text.split("\n"), "", plan.source.indent(node.lineno), ())
            at = plan.source.line_starts[plan.source.last_line(node)]
            text = "\n".join(lines)
            yield Edit(at, at, f"\n\n{text}\n", Origin(f"block after {block.target}", block.location))


def _insertions(plan: Plan) -> list[Edit]:
    """Added imports, post-import blocks and helpers, in this order, below upstream's imports."""
    at = below_imports(plan.source)
    edits: list[Edit] = []
    for spec in plan.imports:
        origin = Origin(f"add_import {', '.join(imported_names(spec))}", spec.location)
        place = top_of(plan.source) if spec.module == "__future__" else at
        edits.append(Edit(place, place, f"{import_statement(spec)}\n", origin))
    for block, location in plan.post_import_blocks:
        edits.append(Edit(at, at, f"\n{block}\n", Origin("post-import block", location)))
    for helper in plan.helpers:
        if not helper.after:
            edits.append(Edit(at, at, f"\n\n{helper_text(helper)}\n", helper_origin(helper)))
    return [*edits, Edit(at, at, "\n")] if edits else []
