"""Statements that read as they did and use another value in upstream's new text, where ours still uses the old one."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from patchgen_core.syntax.nodes import COMPOUND, DEFINITIONS
from patchgen_core.upgrade.merging.edits import Edits
from patchgen_core.upgrade.merging.flow import find_uses
from patchgen_core.upgrade.merging.origins import labels_of, statements
from patchgen_core.upgrade.merging.renames import Aligned
from patchgen_core.upgrade.merging.text import DefinitionText


@dataclass(frozen=True)
class StaleUse:
    """A value that a statement of the merged text uses and upstream's new one does not: it uses another one's.

    Attributes:
        source, target: the statements of the merged text that assign it and use it.
        label: what the one that uses it is known by in all texts.
        our_name: what the merged text calls the value.
        name: what upstream's text calls the one that it uses instead.
    """

    source: ast.stmt
    target: ast.stmt
    label: object
    our_name: str
    name: str


_Sources = dict[object, dict[object, str]]


def find_stale_uses(edits: Edits, merged: DefinitionText, aligned: Aligned) -> list[StaleUse]:
    """Where upstream's statement takes a value from elsewhere than it did, and the merged one still from there."""
    labels = labels_of(edits, merged, aligned.theirs)
    by_label = {labels[node]: node for node in statements(merged.definition)}
    old_labels = {node: edits.old.get(node, node) for node in statements(aligned.base.definition)}
    before, after = _sources(aligned.base, old_labels), _sources(aligned.theirs, labels)
    results = []
    for target, now in _sources(merged, labels).items():
        was, theirs = before.get(target), after.get(target)
        if was is None or theirs is None:
            continue
        stale = [source for source in was if source in now and source not in theirs and source in by_label]
        missing = [name for source, name in theirs.items() if source not in was and source not in now]
        if stale and missing:
            results.append(StaleUse(by_label[stale[0]], by_label[target], target, now[stale[0]], missing[0]))
    return sorted(results, key=lambda use: use.target.lineno)


def _sources(text: DefinitionText, labels: Mapping[ast.stmt, object]) -> _Sources:
    """What each statement uses: by the labels of the statements that assign it, its names."""
    results: _Sources = {}
    for use in find_uses(text.definition, labels.__getitem__, ()):
        if not use.name.startswith(("*", "self.")):
            results.setdefault(use.target, {})[use.source] = use.name
    return results


def follow_upstream(edits: Edits, use: StaleUse, aligned: Aligned) -> bool:
    """Let a statement of ours use what upstream's uses now, where ours is upstream's old one but for what it calls
    the value; whether it is that."""
    ours = use.label
    old = [node for node, same in edits.old.items() if same is ours]
    new = [node for node, same in edits.same.items() if same is ours]
    if not isinstance(ours, ast.stmt) or isinstance(ours, (*COMPOUND, *DEFINITIONS)) or len(old) != 1 or len(new) != 1:
        return False
    was, is_now = aligned.base.dump(old[0]), aligned.theirs.dump(new[0])
    names = [node for node in ast.walk(ours) if isinstance(node, ast.Name) and node.id == use.our_name]
    spans = [(edits.text.source.start(node), edits.text.source.end(node)) for node in names]
    is_written = any(not isinstance(node.ctx, ast.Load) for node in names)
    is_apart = any(edits.text.source.text[start:end] != use.our_name for start, end in spans)
    called_otherwise = ast.dump(ours).replace(f"id='{use.our_name}'", f"id='{use.name}'")
    if not was == is_now == called_otherwise or is_written or is_apart:
        return False
    for start, end in spans:
        edits.replace(start, end, use.name)
    edits.notes.append(f"upstream's '{use.name}' is another value now, which ours called '{use.our_name}'")
    return True
