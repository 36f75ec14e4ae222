"""An edit of a config, and what becomes of it in another release."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from patchgen_core.codegen.edit_places import read_pattern
from patchgen_core.codegen.edit_templates import function_template
from patchgen_core.codegen.edited_classes import class_edits
from patchgen_core.codegen.edited_functions import compose_function
from patchgen_core.codegen.renaming import map_prefixes
from patchgen_core.codegen.replacement_names import settle_names
from patchgen_core.codegen.targets import ComposedLine, PlannedPatch
from patchgen_core.config.declarations import Patch
from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.nodes import FUNCTIONS, Function
from patchgen_core.syntax.patterns import Pattern, is_rest, metavariable, parse_quoted
from patchgen_core.upgrade.carrying.definitions import ReleaseDefinition
from patchgen_core.upgrade.results import Conflict

State = Literal["stays", "moved", "changed", "ambiguous", "gone", "now upstream"]
"""What happened to the place of an edit: it ``stays`` as it is; it ``moved``, to other names or elsewhere; it
``changed``; it is there more often than before; it is ``gone``; or upstream does there what the edit does."""


@dataclass(frozen=True)
class DeclaredEdit:
    """An edit as its config has it: with the names that the config uses."""

    planned: PlannedPatch

    @property
    def patch(self) -> Patch:
        """What is declared."""
        return self.planned.patch

    @property
    def label(self) -> str:
        """How errors name it."""
        return self.planned.label

    @property
    def text(self) -> str:
        """Its function's text; empty for code in quotes."""
        return self.planned.replacement.text if self.planned.replacement is not None else ""

    @property
    def code(self) -> str:
        """What it puts at its place, in upstream's names: its function, or the code in quotes."""
        return map_prefixes(self.text or self.patch.code, self.patch.name_map)

    @cached_property
    def settled(self) -> PlannedPatch:
        """The edit in upstream's names."""
        (settled,) = settle_names([self.planned], [])[0]
        return settled

    @cached_property
    def pattern(self) -> Pattern:
        """Its place, in upstream's names."""
        return read_pattern(self.patch, self.label)

    @cached_property
    def expression(self) -> ast.expr | None:
        """The expression that code in quotes is; None for statements."""
        body = parse_quoted(self.code) if not self.text and self.code else []
        return body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None

    @property
    def keeps_all(self) -> bool:
        """Whether all of upstream's code at its place is in what it makes."""
        if self.planned.replacement is not None:
            return function_template(self.planned.replacement, self.patch, self.label).rests > 0
        if self.patch.kind == "code_deletion":
            return False
        new = ast.Module(parse_quoted(self.code), [])
        if self.pattern.expression is None or self.expression is None:
            return any(isinstance(node, ast.Expr) and is_rest(node) for node in ast.walk(new))
        old = self.pattern.expression
        return _wildcards(old) <= _wildcards(new) and not _loses_items(old)

    def changed(self, *, text: str | None = None, **fields: object) -> DeclaredEdit:
        """The edit with another declaration, or another text of its function."""
        patch = replace(self.patch, **fields)  # type: ignore[arg-type]
        replacement = self.planned.replacement
        if replacement is not None and text is not None:
            replacement = replacement.with_text(text, replacement.decorators)
        return DeclaredEdit(replace(self.planned, patch=patch, replacement=replacement))

    def compose(self, definition: ReleaseDefinition) -> tuple[ComposedLine, ...]:
        """The lines that it makes of a function; none of a class. A PatchgenError where it has no place there."""
        if isinstance(definition.node, FUNCTIONS):
            return compose_function(definition.source, definition.node, [self.settled], definition.package)
        class_edits(definition.source, definition.node, [self.settled])
        return ()


def _wildcards(node: ast.AST) -> set[str]:
    """The metavariables of a pattern, and the calls whose other arguments it leaves open."""
    calls = (n for n in ast.walk(node) if isinstance(n, ast.Call) and any(map(is_rest, n.args)))
    return {name for n in ast.walk(node) if (name := metavariable(n))} | {f"call {n}" for n, _ in enumerate(calls)}


def _loses_items(node: ast.AST) -> bool:
    """Whether a pattern has ``...`` for anything but arguments, which the new code cannot take over."""
    arguments = {id(a) for n in ast.walk(node) if isinstance(n, ast.Call) for a in n.args}
    return any(is_rest(n) and id(n) not in arguments for n in ast.walk(node) if isinstance(n, ast.expr))


@dataclass(frozen=True)
class CarriedEdit:
    """What becomes of an edit.

    Attributes:
        state: what happened to its place.
        edit: what it has to become; the edit itself where it stays or cannot be carried over.
        detail: what exactly, as a clause.
        base, theirs: upstream's old and new code at the place, where that changed.
        conflict: why it cannot be carried over, with what each side has.
        notes: what was assumed on the way.
    """

    state: State
    edit: DeclaredEdit
    detail: str = ""
    base: str = ""
    theirs: str = ""
    conflict: Conflict | None = None
    notes: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = field(default=())


def why_not(edit: DeclaredEdit, definition: ReleaseDefinition) -> str:
    """Why an edit has no place in a definition, with the nearest code and its lines; empty if it has one."""
    try:
        edit.compose(definition)
    except PatchgenError as error:
        problem = error.problems[0]
        message = problem.message.removeprefix(f"{edit.label}: ")
        return f"{message}; {problem.hint[:1].lower()}{problem.hint[1:].rstrip('.')}" if problem.hint else message
    return ""


def compose_edits(edits: Sequence[DeclaredEdit], definition: ReleaseDefinition) -> Function:
    """A function of a release with edits in it; a PatchgenError where one of them has no place there."""
    assert isinstance(definition.node, FUNCTIONS)
    settled = [edit.settled for edit in edits]
    lines = compose_function(definition.source, definition.node, settled, definition.package)
    function = ast.parse("\n".join(line.text for line in lines)).body[0]
    assert isinstance(function, FUNCTIONS)
    return function
