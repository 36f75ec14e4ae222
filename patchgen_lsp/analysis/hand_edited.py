"""What was edited by hand in a generated file, as an editor shows it."""

from __future__ import annotations

from pathlib import Path

from lsprotocol import types

from patchgen_core.build.hand_edits import find_edits_of
from patchgen_core.syntax.header import is_generated, read_fingerprint
from patchgen_lsp.analysis.diagnostics import SOURCE
from patchgen_lsp.analysis.generated_view import find_maker
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.places import line_range

EDITED_CODE = "edited"


def is_edited(text: str) -> bool:
    """Whether a module that patchgen generated is not as it was written."""
    mark = read_fingerprint(text) if is_generated(text) else None
    return mark is not None and not mark.sealed


def diagnose_hand_edits(bench: Workbench, path: Path, units: str) -> list[types.Diagnostic]:
    """A warning at each place of a generated file that was edited by hand, saved or not; none where no config is known
    that makes it."""
    text = bench.sources.text(path).replace("\r\n", "\n")
    view = find_maker(bench, path) if is_edited(text) else None
    if view is None:
        return []
    edit = find_edits_of(view.artifact, text)
    what = "this generated file was edited by hand"
    if edit is None:
        what = "the layout of this generated file was edited by hand"
    elif edit.lines:
        what = "edited by hand: the config makes something else here"
    message = f"{what}\nAbsorb it into {view.config.name}, or regenerate: a copy is kept."
    lines = text.split("\n")
    places = [line_range(lines, 1, units)]
    if edit is not None and edit.lines:
        ends = [
            (line_range(lines, at.start, units), line_range(lines, max(at.start, at.stop - 1), units))
            for at in edit.lines
        ]
        places = [types.Range(first.start, last.end) for first, last in ends]
    return [
        types.Diagnostic(at, message, types.DiagnosticSeverity.Warning, EDITED_CODE, source=SOURCE) for at in places
    ]
