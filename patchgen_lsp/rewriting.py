"""New texts of files as an editor applies them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path

from lsprotocol import types

from patchgen_lsp.places import uri_of, width


@dataclass(frozen=True)
class Rewriting:
    """What an action writes.

    Attributes:
        texts: for each file, what it holds and what it is to hold.
        lines: what to tell the person.
        is_refused: whether nothing can be done; the lines say why.
        question: what else could be done, as a button says it; empty for nothing. The action is then asked for again
            with what is in ``answer`` as well.
    """

    texts: Mapping[Path, tuple[str, str]] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    is_refused: bool = False
    question: str = ""
    answer: Mapping[str, bool] = field(default_factory=dict)


def make_edits(before: str, after: str, units: str) -> list[types.TextEdit]:
    """The edits that make one text of another: whole lines, those alone that differ."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    edits = []
    for kind, first, last, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            place = types.Range(_start_of(old, first, units), _start_of(old, last, units))
            edits.append(types.TextEdit(place, "".join(new[start:end])))
    return edits


def _start_of(lines: list[str], number: int, units: str) -> types.Position:
    """The start of a line; behind the last one, the end of the text."""
    if number == len(lines) and lines and not lines[-1].endswith(("\n", "\r")):
        return types.Position(number - 1, width(lines[-1], units))
    return types.Position(number, 0)


def make_workspace_edit(
    texts: Mapping[Path, tuple[str, str]], versions: Mapping[str, int | None], units: str
) -> types.WorkspaceEdit:
    """The edits of several files, bound to the versions of those that are open."""
    changes = []
    for path, (before, after) in texts.items():
        uri = uri_of(path)
        document = types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=versions.get(uri))
        changes.append(types.TextDocumentEdit(document, list(make_edits(before, after, units))))
    return types.WorkspaceEdit(document_changes=list(changes))
