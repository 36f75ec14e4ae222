"""Three-way merge of one definition: what upstream changed, applied to what replaces it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from patchgen_core.config.replacement import HEAD
from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.scope_analysis import find_scopes
from patchgen_core.upgrade.merging.edits import Edits
from patchgen_core.upgrade.merging.lines import merge_lines
from patchgen_core.upgrade.merging.origins import NewUse, find_bypasses, find_new_uses
from patchgen_core.upgrade.merging.renames import Aligned, align_names
from patchgen_core.upgrade.merging.stale_uses import find_stale_uses, follow_upstream
from patchgen_core.upgrade.merging.text import DefinitionText, read_text
from patchgen_core.upgrade.merging.tree import TreeMerge
from patchgen_core.upgrade.results import Conflict, Merged


def merge_definition(base: str, ours: str, theirs: str) -> Merged:
    """Apply upstream's change of a definition to its replacement, which may have another name.

    Each text starts at column 0 and includes decorators. Where both sides changed the same, ours stays and a conflict
    says so.
    """
    texts = [read_text(text) for text in (base, ours, theirs)]
    name = texts[1].definition.name
    base, theirs = (_renamed(text, name) for text in (texts[0], texts[2]))
    texts = [read_text(base), texts[1], read_text(theirs)]
    dumps = [text.dump(text.definition) for text in texts]
    if dumps[2] in (dumps[0], dumps[1]):
        return Merged(ours, "same")
    aligned = align_names(*texts)
    sides = aligned.base, aligned.ours, aligned.theirs
    edits = Edits(aligned.ours, notes=list(aligned.notes))
    TreeMerge(edits, *sides).run()
    try:
        merged = read_text(edits.result)
        if not edits.conflicts and _follow(edits, merged, aligned):
            merged = read_text(edits.result)
    except PatchgenError as error:
        broken = Conflict(1, f"the merged text is not reliable: {error}", base, ours, theirs)
        return Merged(ours, "syntax", (broken,))
    conflicts = edits.placed() or tuple(_conflicting_uses(edits, merged, aligned))
    how: Literal["same", "lines", "syntax"] = "syntax"
    result = merged.source.text
    if not conflicts:
        edits.notes += find_bypasses(edits)
        by_lines = _by_lines(merged, *sides)
        result = by_lines or _tidied(merged, aligned.ours)
        how = "same" if result == aligned.ours.source.text else "lines" if by_lines else "syntax"
    result = result if ours.endswith("\n") else result.rstrip("\n")
    if not conflicts and (reason := _why_not_python(result)) and not _why_not_python(ours):
        refused = Conflict(1, f"the merged text is not reliable: Python refuses it: {reason}", base, ours, theirs)
        return Merged(ours, "syntax", (refused,))
    return Merged(result, how, conflicts, tuple(dict.fromkeys(edits.notes)))


def _why_not_python(text: str) -> str:
    """Why Python does not compile a text that it can parse: a name that is global after it was assigned, an argument
    that is passed twice."""
    try:
        compile(text, "merged", "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"{error.msg} (line {error.lineno})"
    return ""


def _by_lines(merged: DefinitionText, base: DefinitionText, ours: DefinitionText, theirs: DefinitionText) -> str:
    """The text that merging by lines makes, when it means the same: that has upstream's comments and layout."""
    text, conflicts = merge_lines(*(side.source.text for side in (base, ours, theirs)))
    if conflicts:
        return ""
    try:
        return text if ast.dump(ast.parse(text)) == ast.dump(merged.source.tree) else ""
    except SyntaxError:
        return ""


def _tidied(merged: DefinitionText, ours: DefinitionText) -> str:
    """The merged text without the second of two empty lines that deleting left, where ours has no two in a row."""
    if list(_doubled(ours)):
        return merged.source.text
    doubled = set(_doubled(merged))
    return "\n".join(line for number, line in enumerate(merged.source.lines, 1) if number not in doubled)


def _doubled(text: DefinitionText) -> Iterator[int]:
    lines = text.source.lines[:-1]
    for number in range(2, len(lines) + 1):
        if not lines[number - 1].strip() and not lines[number - 2].strip() and number not in text.source.string_lines:
            yield number


def _conflicting_uses(edits: Edits, merged: DefinitionText, aligned: Aligned) -> Iterator[Conflict]:
    """Values that a statement uses in the merged text only, or no longer in upstream's, as conflicts; one for each
    statement."""
    theirs = aligned.theirs
    unbound = (_local_names(edits.text) | _local_names(theirs)) - _local_names(merged)
    targets = set()
    for new in find_new_uses(edits, merged, theirs):
        if new.target not in targets:
            targets.add(new.target)
            yield _at(edits.text, merged, new.target.lineno, _reason(new, merged, unbound))
    for stale in find_stale_uses(edits, merged, aligned):
        if stale.target not in targets:
            targets.add(stale.target)
            line = merged.source.lines[stale.source.lineno - 1].strip()
            reason = f"upstream's '{stale.name}' is another value here now; yours is what `{line}` makes"
            yield _at(edits.text, merged, stale.target.lineno, reason)


def _follow(edits: Edits, merged: DefinitionText, aligned: Aligned) -> bool:
    """Follow what names of upstream's text mean now, where ours only calls the old values otherwise."""
    is_followed = False
    for use in find_stale_uses(edits, merged, aligned):
        is_followed |= follow_upstream(edits, use, aligned)
    return is_followed


def _local_names(text: DefinitionText) -> frozenset[str]:
    """The names that functions and classes bind anywhere in a definition."""
    bindings = find_scopes(text.source.tree).bindings
    return frozenset(name for name, scope in bindings if scope.kind in ("function", "class"))


def _reason(new: NewUse, merged: DefinitionText, unbound: frozenset[str]) -> str:
    """Why a new use is a conflict, where ``unbound`` are the names that the merged text binds no more."""
    name = new.use.name.lstrip("*")
    if new.source is None and name in unbound:
        return f"'{name}' is used here, but nothing binds it now: one side uses it, the other removed it"
    by = "" if new.source is None else f": `{merged.source.lines[new.source.lineno - 1].strip()}`"
    where = "in upstream's text" if new.is_lost else "in either text"
    return f"'{name}' has another value here than {where}{by}"


def _at(ours: DefinitionText, merged: DefinitionText, line: int, reason: str) -> Conflict:
    """A conflict about a line of the merged text."""
    text = merged.source.lines[line - 1].strip()
    lines = [number for number, other in enumerate(ours.source.lines, 1) if other.strip() == text]
    at = min(lines, key=lambda number: abs(number - line), default=min(line, len(ours.source.lines)))
    return Conflict(at, reason, "", text, "", merged_line=line)


def _renamed(text: DefinitionText, name: str) -> str:
    """A definition with another name."""
    source, node = text.source, text.definition
    start = source.line_starts[node.lineno - 1]
    return source.text[:start] + HEAD.sub(rf"\g<1>\g<2>{name}", source.text[start:])


def mark_conflicts(ours: str, merged: Merged) -> str:
    """The merged text with conflict markers around each place that could not be merged."""
    lines = (merged.text if merged.text else ours).split("\n")
    for conflict in sorted(merged.conflicts, key=lambda conflict: -conflict.merged_line):
        at = max(conflict.merged_line, 1) - 1
        end = at + (conflict.ours.count("\n") + 1 if conflict.ours else 0)
        near = next((line for line in lines[at:] if line.strip()), "")
        indent = conflict.indent or near[: len(near) - len(near.lstrip())]
        sides = [_indented(text, indent) for text in (conflict.base, conflict.theirs)]
        marked = ["<<<<<<< ours", *lines[at:end], "||||||| base", *sides[0], "=======", *sides[1], ">>>>>>> theirs"]
        lines[at:end] = marked
    return "\n".join(lines)


def _indented(text: str, indent: str) -> list[str]:
    return [indent + line if line.strip() else line for line in text.split("\n")] if text else []
