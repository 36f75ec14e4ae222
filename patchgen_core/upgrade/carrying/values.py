"""What the names that an edit uses stand for at its place: where their values come from, and who uses its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.forms import PROSE, contrasted, form
from patchgen_core.syntax.nodes import COMPOUND, FUNCTIONS, blocks
from patchgen_core.syntax.patterns import parse_quoted
from patchgen_core.upgrade.carrying.carried_edit import CarriedEdit, DeclaredEdit
from patchgen_core.upgrade.carrying.definitions import ReleaseDefinition
from patchgen_core.upgrade.merging.flow import ENTRY, find_uses
from patchgen_core.upgrade.results import Finding

_OWN, _PLACE = "the edit", "its place"


@dataclass
class PlaceValues:
    """The local names that an edit reads, each with the statements of upstream's that its value may come from, by
    their form; and those that it binds and upstream reads. ``texts`` are the statements as they are written."""

    sources: dict[str, set[str]] = field(default_factory=dict)
    readers: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)


def value_findings(
    edit: DeclaredEdit, carried: CarriedEdit, old: ReleaseDefinition, new: ReleaseDefinition
) -> tuple[list[Finding], list[str]]:
    """What is other of the local names that an edit uses, and which of them mean the same."""
    try:
        before, after = place_values(edit, old), place_values(carried.edit, new)
    except PatchgenError:  # told by the verdict
        return [], []
    findings: list[Finding] = []
    same: list[str] = []
    still_used = names_read_by(carried.edit)
    renames = dict(carried.renames)
    places = [_forms(text) for text in (carried.base, carried.theirs)]
    for name, sources in before.sources.items():
        other = renames.get(name, name)
        if other not in still_used:
            continue
        expected = {_PLACE if source in places[0] else _renamed(source, renames) for source in sources}
        if {_PLACE if source in places[1] else source for source in after.sources.get(other, set())} == expected:
            same.append(other)
        else:
            findings.append(_changed_value(other, name, before, after))
    findings += _unread(before, after, renames)
    return findings, same


def _forms(code: str) -> set[str]:
    """The statements of some code, at any depth."""
    return {head_form(node) for node in ast.walk(ast.parse(code)) if isinstance(node, ast.stmt)}


def _renamed(source: str, renames: dict[str, str]) -> str:
    for one, other in renames.items():
        source = re.sub(rf"\b{re.escape(one)}\b", other, source)
    return source


def _changed_value(name: str, old_name: str, before: PlaceValues, after: PlaceValues) -> Finding:
    sources = after.sources.get(name, set())
    if not sources - {ENTRY}:
        return Finding("gone", name, "used", "upstream's code no longer binds it before the edit", "must change")
    texts = [
        " or ".join(sorted(values.texts.get(source, source) for source in one))
        for values, one in ((before, before.sources[old_name]), (after, sources))
    ]
    was, now = contrasted(texts[0], texts[1])
    return Finding("changed", name, "used", f"its value comes from `{now}` there instead of `{was}`", "review")


def _unread(before: PlaceValues, after: PlaceValues, renames: dict[str, str]) -> Iterator[Finding]:
    for name in sorted(before.readers):
        if renames.get(name, name) not in after.readers:
            yield Finding(
                "changed",
                name,
                "used",
                "upstream's code no longer reads the value that the edit assigns to it",
                "review",
            )


def place_values(edit: DeclaredEdit, definition: ReleaseDefinition) -> PlaceValues:
    """The values at the place of an edit in one release; a PatchgenError where it has none."""
    values = PlaceValues()
    lines = edit.compose(definition)
    if not lines:
        return values
    function = ast.parse("\n".join(line.text for line in lines)).body[0]
    assert isinstance(function, FUNCTIONS)
    authored = {number for number, line in enumerate(lines, 1) if line.edit is not None}
    used = names_read_by(edit)

    def label(node: ast.stmt) -> object:
        last = next(blocks(node))[0].lineno - 1 if isinstance(node, COMPOUND) else node.end_lineno or node.lineno
        if authored & set(range(node.lineno, max(last, node.lineno) + 1)):
            return _OWN
        text = head_form(node)
        values.texts[text] = ast.unparse(node).split("\n")[0]
        return text

    for use in find_uses(function, label, ()):
        name = use.name.lstrip("*")
        source = f"the parameter {use.source[0]}" if isinstance(use.source, tuple) else str(use.source)
        if use.target == _OWN and use.source != _OWN and name in used and name.isidentifier():
            if name in definition.variables or source != ENTRY:
                values.sources.setdefault(name, set()).add(source)
        elif use.source == _OWN and use.target != _OWN and name.isidentifier():
            values.readers.add(name)
    return values


def names_read_by(edit: DeclaredEdit) -> set[str]:
    """The plain names that the code of an edit reads."""
    tree = ast.Module(ast.parse(edit.code).body if edit.text else parse_quoted(edit.code), [])
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def head_form(node: ast.stmt) -> str:
    """What a statement says; of one with blocks, its first line."""
    if not isinstance(node, COMPOUND):
        return form(node, ignore=PROSE)
    head = (child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt))
    return f"{type(node).__name__} {' '.join(form(child, ignore=PROSE) for child in head)}"
