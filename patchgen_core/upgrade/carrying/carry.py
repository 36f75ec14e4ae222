"""Edits carried over to another release: found again, renamed, moved, or merged with what upstream changed there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen_core.codegen.renaming import map_prefixes
from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.forms import PROSE, form
from patchgen_core.syntax.nodes import COMPOUND, FUNCTIONS
from patchgen_core.syntax.patterns import Match, parse_quoted
from patchgen_core.syntax.place_texts import find_place_text
from patchgen_core.upgrade.carrying.carried_edit import CarriedEdit, DeclaredEdit, why_not
from patchgen_core.upgrade.carrying.correspondence import corresponding, statement_around
from patchgen_core.upgrade.carrying.definitions import ReleaseDefinition, identifiers
from patchgen_core.upgrade.carrying.merging_code import PlaceMerge, edited_code, merge_code, merge_function, segment
from patchgen_core.upgrade.carrying.parameters import PARAMETERS, carry_parameter
from patchgen_core.upgrade.carrying.renames import Renames, find_renames, rename_code
from patchgen_core.upgrade.results import Conflict

_TELLING = 60
"""The code of a place that is longer than this tells by itself where it went."""

Others = Mapping[str, tuple[ReleaseDefinition | None, ReleaseDefinition]]
"""The other functions of the new release by their dotted names, each with what the old one has of that name."""


def carry_edit(edit: DeclaredEdit, old: ReleaseDefinition, new: ReleaseDefinition, others: Others) -> CarriedEdit:
    """What becomes of an edit whose definition is another one in the new release."""
    try:
        if edit.patch.kind in PARAMETERS:
            return carry_parameter(edit, old, new)
        return _Carrier(edit, old, new, others).carry()
    except PatchgenError as error:
        return CarriedEdit("gone", edit, error.problems[0].message.removeprefix(f"{edit.label}: "))


@dataclass(frozen=True)
class _Carrier:
    edit: DeclaredEdit
    old: ReleaseDefinition
    new: ReleaseDefinition
    others: Others

    def carry(self) -> CarriedEdit:
        for renames in (*self._renames(), {}):
            carried = self._found(renames)
            if carried is not None:
                return carried
        if len(self._matches(self.edit, self.new)) > self.edit.patch.count:
            return CarriedEdit("ambiguous", self.edit, why_not(self.edit, self.new))
        options = (self._shortened(), self._elsewhere(), self._changed())
        carried = next(filter(None, options), None)
        return carried or CarriedEdit("gone", self.edit, why_not(self.edit, self.new))

    def _matches(self, edit: DeclaredEdit, definition: ReleaseDefinition) -> list[Match]:
        return definition.matches(edit.pattern, edit.patch, edit.expression)

    def _before(self) -> list[Match]:
        """Where the edit is in the old release; none where it has no place there."""
        matches = self._matches(self.edit, self.old)
        return matches if len(matches) == self.edit.patch.count else []

    # --- the same place, perhaps with other names ----------------------------------------------------

    def _renames(self) -> Iterator[Renames]:
        """The ways to give the edit the new names of what it names, those of the whole first."""
        yield from find_renames(self.old, self.new, identifiers(_parsed(self.edit)))

    def _found(self, renames: Renames) -> CarriedEdit | None:
        """The edit with other names, if it has its place then."""
        for variables in (self.old.variables, frozenset[str]()) if renames else (frozenset[str](),):
            edit = self._renamed(renames, variables)
            if not edit.patch.at:
                return self._stays(edit, renames)
            after = self._matches(edit, self.new)
            if len(after) != edit.patch.count:
                continue
            lost = None if edit.keeps_all else self._lost(self._before(), after, renames)
            if lost is None:
                return self._stays(edit, renames)
            return self._merged(*lost, place=edit.patch.at) if edit.patch.count == 1 else self._unlike(*lost)
        return None

    def _renamed(self, renames: Renames, variables: frozenset[str]) -> DeclaredEdit:
        patch = self.edit.patch
        names = {self._unmapped(one): self._unmapped(other) for one, other in renames.items()}
        at, code = (rename_code(text, names, variables) for text in (patch.at, patch.code))
        text = rename_code(self.edit.text, names, self.old.variables) if self.edit.text else None
        return self.edit.changed(at=at, code=code, text=text)

    def _stays(self, edit: DeclaredEdit, renames: Renames) -> CarriedEdit:
        is_same = edit.patch == self.edit.patch and edit.text == self.edit.text
        if is_same:
            return CarriedEdit("stays", self.edit)
        named = [(one, other) for one, other in renames.items() if one in identifiers(_parsed(self.edit))]
        detail = ", ".join(f"'{one}' is called '{other}' now" for one, other in named or renames.items())
        return CarriedEdit("moved", edit, detail, renames=tuple(renames.items()))

    def _lost(
        self, before: Sequence[Match], after: Sequence[Match], renames: Renames
    ) -> tuple[ast.AST, Sequence[ast.AST], Sequence[ast.AST]] | None:
        """The first place whose code changed and is left out by the edit: a node of it, and the old and new nodes."""
        for one, other in zip(before, after):
            texts = [" ".join(form(node, ignore=PROSE) for node in match.nodes) for match in (one, other)]
            if rename_code(texts[0], renames) != texts[1]:
                return one.nodes[0], one.nodes, other.nodes
        return None

    # --- another place -------------------------------------------------------------------------------

    def _shortened(self) -> CarriedEdit | None:
        """The place by its last statement, or its first, where the edit goes after or before several."""
        statements = self.edit.pattern.statements
        if len(statements) < 2 or not self.edit.text or not self.edit.keeps_all or self.edit.patch.count != 1:
            return None
        body = [ast.unparse(node) for node in _own_body(self.edit)]
        chosen = statements[-1:] if body[0] == "..." else statements[:1] if body[-1] == "..." else ()
        if not chosen or "..." in body[1:-1]:
            return None
        edit = self.edit.changed(at=self._unmapped(ast.unparse(chosen[0])))
        if len(self._matches(edit, self.new)) != 1 or why_not(edit, self.new):
            return None
        return CarriedEdit("moved", edit, "the code beside it has gone")

    def _elsewhere(self) -> CarriedEdit | None:
        """The place in another function of the new release, if the very code of it is in one, and new there."""
        before = self._before()
        wanted = [[form(node) for node in match.nodes] for match in before]
        if not before or self.edit.patch.kind == "class_edit" or self.edit.patch.used_at is not None:
            return None
        places = [name for name, sides in self.others.items() if self._has(wanted, *sides, name)]
        if len(places) != 1:
            return None
        kind = self.edit.patch.kind
        if kind in ("method_edit", "function_edit"):
            kind = "method_edit" if "." in places[0] else "function_edit"
        edit = self.edit.changed(target=places[0], kind=kind)
        edit = DeclaredEdit(replace(edit.planned, method=places[0].partition(".")[2], accessor=""))
        if why_not(edit, self.others[places[0]][1]):
            return None
        return CarriedEdit("moved", edit, f"upstream now has it in {places[0]}")

    def _has(self, wanted: list[list[str]], old: ReleaseDefinition | None, new: ReleaseDefinition, name: str) -> bool:
        is_called = name.rpartition(".")[2] in self.new.identifiers
        if not is_called and max(len(text) for texts in wanted for text in texts) < _TELLING:
            return False
        matches = self._matches(self.edit, new)
        if len(matches) != len(wanted) or [[form(node) for node in match.nodes] for match in matches] != wanted:
            return False
        return old is None or not self._matches(self.edit, old)

    # --- changed code --------------------------------------------------------------------------------

    def _changed(self) -> CarriedEdit | None:
        """The statements that stand for those of the place now, with the edit at them."""
        before = self._before()
        if len(before) != 1 or not isinstance(self.new.text.definition, FUNCTIONS):
            return None
        nodes: Sequence[ast.AST] = before[0].nodes
        if not isinstance(nodes[0], ast.stmt):
            around = statement_around(self.old.searched, nodes[0])
            nodes = [around] if around is not None else []
        counterparts = corresponding(self.old, self.new, nodes) if nodes else []
        return self._merged(before[0].nodes[0], nodes, counterparts) if counterparts else None

    def _merged(
        self, node: ast.AST, before: Sequence[ast.AST], after: Sequence[ast.AST], place: str = ""
    ) -> CarriedEdit | None:
        """The edit with upstream's change of its place; ``place`` is how it is named, if that finds it already."""
        if not isinstance(node, ast.stmt) and isinstance(before[0], COMPOUND):
            before, after = _tests(before[0]), _tests(after[0])
            if not before or not after:
                return None
        statements = [node for node in after if isinstance(node, ast.stmt)]
        at = place or (find_place_text(statements, self.new.searched) if statements else ast.unparse(after[0]))
        if not at:
            return None
        base, theirs = _texts(self.old, before), _texts(self.new, after)
        if self.edit.keeps_all and isinstance(node, ast.stmt):
            edit = self._renamed(next(self._renames(), {}), self.old.variables).changed(at=self._unmapped(at))
            if _bound(before) != _bound(after) or why_not(edit, self.new):
                return None
            return CarriedEdit("changed", edit, "the edit leaves it upstream's", base, theirs)
        if self.edit.patch.kind == "code_deletion":
            reason = "upstream changed the code that the edit removes"
            conflict = Conflict(1, reason, base, "", theirs, merged_line=1)
            return CarriedEdit("changed", self.edit, "", base, theirs, conflict)
        merge = self._merge(before, base, theirs)
        if merge.is_upstream:
            detail = "upstream now does there what the edit does"
            return CarriedEdit("now upstream", self.edit, detail, base, theirs)
        if not merge.merged.is_clean:
            return self._conflict(merge, base, theirs)
        edit = self._with_merge(merge, at, theirs if not place or not statements else "")
        return CarriedEdit("changed", edit, "", base, theirs, notes=merge.merged.notes)

    def _merge(self, before: Sequence[ast.AST], base: str, theirs: str) -> PlaceMerge:
        if self.edit.text:
            return merge_function(self.edit, base, theirs)
        (match,) = self._before()
        assert isinstance(before[0], (ast.stmt, ast.expr))
        return merge_code(self.edit, edited_code(self.edit, self.old, match, before[0]), base, theirs)

    def _with_merge(self, merge: PlaceMerge, at: str, whole: str) -> DeclaredEdit:
        """The edit with merged code; of code in quotes, the ``whole`` place is named, for nothing of it is left."""
        if self.edit.text:
            return self.edit.changed(at=self._unmapped(at), text=merge.merged.text.rstrip("\n"))
        return self.edit.changed(at=self._unmapped(whole or merge.theirs), code=merge.code)

    def _conflict(self, merge: PlaceMerge, base: str, theirs: str) -> CarriedEdit:
        line = len(self.edit.text.split("\n")) - len(merge.ours.split("\n")) + 1 if self.edit.text else 1
        reason = merge.merged.conflicts[0].reason
        conflict = Conflict(max(line, 1), reason, merge.base, merge.ours, merge.theirs, merged_line=max(line, 1))
        return CarriedEdit("changed", self.edit, "", base, theirs, conflict)

    def _unlike(self, node: ast.AST, before: Sequence[ast.AST], after: Sequence[ast.AST]) -> CarriedEdit:
        texts = _texts(self.old, before), _texts(self.new, after)
        return CarriedEdit("changed", self.edit, "the edit leaves upstream's change out", *texts)

    def _unmapped(self, text: str) -> str:
        return map_prefixes(text, {new: old for old, new in self.edit.patch.name_map.items()})


def _bound(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that statements assign to: one that assigns to others is no longer the same."""
    names = (inner for node in nodes for inner in ast.walk(node) if isinstance(inner, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _texts(side: ReleaseDefinition, nodes: Sequence[ast.AST]) -> str:
    statements = [node for node in nodes if isinstance(node, ast.stmt)]
    if statements:
        return side.code(statements)
    (node,) = nodes
    assert isinstance(node, ast.expr)
    return segment(side, node)


def _tests(node: ast.AST) -> list[ast.AST]:
    """The condition of a statement that has one."""
    return [node.test] if isinstance(node, (ast.If, ast.While)) else []


def _own_body(edit: DeclaredEdit) -> list[ast.stmt]:
    function = ast.parse(edit.text).body[0]
    return list(getattr(function, "body", []))


def _parsed(edit: DeclaredEdit) -> ast.AST:
    """What an edit names: its place and its code."""
    statements = [*edit.pattern.statements] if edit.patch.at else []
    return ast.Module([*statements, *parse_quoted(edit.code)], [])
