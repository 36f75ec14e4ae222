"""Which line of a config a line of its generated module comes from."""

from __future__ import annotations

import ast

from patchgen_core.checks.contract.rule import Finding, Subject
from patchgen_core.codegen.edited_lines import edit_at
from patchgen_core.config.replacement import Replacement
from patchgen_core.errors import Location
from patchgen_core.syntax.forms import is_same_syntax
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import DEFINITIONS


def config_location(subject: Subject, finding: Finding) -> Location:
    """The line of the config that a finding is about: the code itself when it stands in the config's file."""
    config = subject.plan.config.location
    if finding.declared is not None:
        return finding.declared
    line = getattr(finding.node, "lineno", 0)
    owner = subject.generated.source.owner_at(line) if line else ""
    patch = subject.patch_of(owner) if owner else None
    if patch is not None and patch.lines:
        return edit_at(line, patch, subject.edited_lines) or config
    declaration = _declaration(subject, owner) if owner else None
    if declaration is None:
        return _addition(subject, finding, owner) or config
    replacement, location, dotted = declaration
    if replacement is None or replacement.location.file != str(subject.plan.config.location.file):
        return location or config
    inner = _line_in(subject.generated, replacement, dotted, finding.node)
    return Location(replacement.location.file, replacement.location.line + inner)


def _declaration(subject: Subject, owner: str) -> tuple[Replacement | None, Location | None, str] | None:
    """What a patch or helper brings in, where it was declared and what the generated module calls it."""
    patch = subject.patch_of(owner)
    if patch is not None:
        return patch.replacement, patch.patch.location, patch.dotted
    helper = subject.helpers.get(owner.partition(".")[0])
    return (helper.replacement, helper.helper.location, helper.name) if helper else None


def _addition(subject: Subject, finding: Finding, owner: str) -> Location | None:
    name = owner.partition(".")[0] or finding.target
    for block, location in subject.plan.blocks:
        if any(getattr(node, "name", getattr(node, "id", None)) == name for node in ast.walk(ast.parse(block))):
            return location
    return None


def _line_in(generated: Module, replacement: Replacement, dotted: str, original: ast.AST | None) -> int:
    """How many lines below its ``def`` or ``class`` a replacement has what a node of its result comes from.

    The two trees have the same shape unless ruff rewrote the code: then the statement is looked for that reads the
    same, and the first line is all that is known when there is none or more than one.
    """
    name, _, method = dotted.partition(".")
    ours = ast.parse(replacement.text).body[0]
    for node in generated.index.definitions.get(name, []):
        inner = [s for s in ast.walk(node) if isinstance(s, DEFINITIONS) and s.name == method] if method else [node]
        for theirs in inner:
            pairs = list(zip(_body(theirs), _body(ours)))
            if all(type(a) is type(b) for a, b in pairs):
                twin = next((b for a, b in pairs if a is original), None)
                if twin is not None:
                    return int(getattr(twin, "lineno", 1)) - 1
            elif (line := _line_of_twin(theirs, ours, original)) is not None:
                return line - 1
    return 0


def _line_of_twin(theirs: ast.AST, ours: ast.AST, original: ast.AST | None) -> int | None:
    """The line of a definition that has what a node of another version of it comes from, told by its statement."""
    around = [s for s in ast.walk(theirs) if isinstance(s, ast.stmt) and any(node is original for node in ast.walk(s))]
    if original is None or not around:
        return None
    statement = around[-1]
    twins = [s for s in ast.walk(ours) if isinstance(s, ast.stmt) and is_same_syntax(s, statement)]
    return twins[0].lineno + getattr(original, "lineno", 0) - statement.lineno if len(twins) == 1 else None


def _body(definition: ast.AST) -> list[ast.AST]:
    """What a definition holds, in a fixed order, its decorators and name aside."""
    return [
        node
        for field, value in ast.iter_fields(definition)
        if field not in ("decorator_list", "name")
        for entry in (value if isinstance(value, list) else [value])
        if isinstance(entry, ast.AST)
        for node in ast.walk(entry)
    ]
