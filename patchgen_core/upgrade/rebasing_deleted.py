"""Edits that upstream has made by itself by now: deleted where that is certain, and else for a person to decide."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from patchgen_core.errors import Location
from patchgen_core.syntax.diffs import unified_diff
from patchgen_core.syntax.nodes import FUNCTIONS
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.carrying.carried_edit import CarriedEdit, DeclaredEdit
from patchgen_core.upgrade.carrying.definitions import ReleaseDefinition
from patchgen_core.upgrade.carrying.parameters import PARAMETERS, parameter_conflict
from patchgen_core.upgrade.carrying.same_effect import Releases, are_all_upstreams, find_doubts
from patchgen_core.upgrade.rebasing_edits import declaration_text, place_of, read_declaration, rebase_edit
from patchgen_core.upgrade.release_module import ReleaseModule
from patchgen_core.upgrade.results import Conflict, Finding, Merged, PatchVerdict, Rebase, Risk, StatementChange
from patchgen_core.upgrade.verdicts.comparing import worst
from patchgen_core.upgrade.verdicts.edit_verdicts import place_risk


def settle_made(
    verdicts: Sequence[PatchVerdict],
    edits: Sequence[DeclaredEdit],
    carried: Sequence[CarriedEdit],
    releases: Releases,
    is_upstreams: Callable[[str], bool],
    new: ReleaseModule,
    sources: SourceCache,
) -> list[PatchVerdict]:
    """The verdicts on all edits of a function, in the config's order: those that upstream has made go if that is
    certain of each, and else each of them is a conflict."""
    are_all = are_all_upstreams(edits, releases, is_upstreams)
    if are_all:
        carried = [replace(one, state="now upstream", detail=_ALL, conflict=None) for one in carried]
    going = [number for number, one in enumerate(carried) if one.state == "now upstream"]
    doubts = {n: _NO_STATEMENT for n in going if not _is_declared_alone(place_of(edits[n]), sources)}
    if not doubts and not are_all:
        doubts = find_doubts(edits, carried, releases, is_upstreams)
    results = list(verdicts)
    for number in going:
        if not doubts:
            heir = _find_heir(number, edits, carried)
            results[number] = _deleted(verdicts[number], edits[number], carried[number], heir, sources)
            continue
        reason = doubts.get(number, f"{carried[number].detail}; but {next(iter(doubts.values()))}")
        stuck = _stuck(edits[number], carried[number], reason, releases[1])
        old = verdicts[number].findings[0]
        risk = place_risk(stuck, edits[number], releases[1])
        finding = replace(old, kind="place changed", detail=reason, risk=risk)
        results[number] = _with_finding(verdicts[number], finding, rebase_edit(stuck, edits[number], new, sources))
    return results


_ALL = "upstream's function is what the config's edits made of it"
_NO_STATEMENT = "upstream has made it by itself, but no statement of the config's own declares it and nothing else"


def _is_declared_alone(location: Location, sources: SourceCache) -> bool:
    """Whether a statement of a module declares the edit that a line declares, and nothing else."""
    source = sources.get(Path(location.file))
    for node in source.tree.body:
        if isinstance(node, FUNCTIONS) and node.lineno == location.line:
            return len(node.decorator_list) == 1
        if isinstance(node, ast.Expr) and node.lineno <= location.line <= (node.end_lineno or 0):
            return isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute)
    return False


def _find_heir(number: int, edits: Sequence[DeclaredEdit], carried: Sequence[CarriedEdit]) -> Location | None:
    """The first edit that stays, for what stands above the first one of all and describes them together."""
    rest = [edit for edit, one in zip(edits, carried) if one.state != "now upstream"]
    if number or not rest or place_of(rest[0]).file != place_of(edits[0]).file:
        return None
    return place_of(rest[0])


def _deleted(
    verdict: PatchVerdict, edit: DeclaredEdit, carried: CarriedEdit, heir: Location | None, sources: SourceCache
) -> PatchVerdict:
    location = place_of(edit)
    is_parameter = edit.patch.kind in PARAMETERS
    rests = (
        "callers pass the same, and nothing that stays means it otherwise"
        if is_parameter
        else "every name in it has the same value there"
    )
    rests = "every name in them means the same there" if carried.detail == _ALL else rests
    detail = f"{carried.detail}: {rests}"
    finding = replace(verdict.findings[0], kind="now upstream", detail=detail, risk="safe")
    declaration = read_declaration(location, sources) if edit.patch.used_at is None else ""
    rebase = Rebase(
        location,
        edit.text,
        Merged("", "deleted"),
        unified_diff(declaration_text(edit), "", "edit", "edit (deleted)"),
        is_edit=True,
        statements=(StatementChange(location, (), heir),),
        declaration=declaration,
    )
    return replace(_with_finding(verdict, finding, rebase), findings=(finding,), risk="safe", problems=())


def _with_finding(verdict: PatchVerdict, finding: Finding, rebase: Rebase | None) -> PatchVerdict:
    findings = (finding, *verdict.findings[1:])
    risk: Risk = "must change" if verdict.problems else worst(one.risk for one in findings)
    return replace(verdict, verdict=finding.kind, findings=findings, rebase=rebase, risk=risk)


def _stuck(edit: DeclaredEdit, carried: CarriedEdit, reason: str, new: ReleaseDefinition) -> CarriedEdit:
    """An edit that upstream has made, as a conflict."""
    if edit.patch.kind in PARAMETERS:
        return parameter_conflict(edit, reason, new)
    conflict = Conflict(1, reason, carried.base, edit.text or edit.patch.code, carried.theirs, merged_line=1)
    return replace(carried, state="changed", detail=reason, conflict=conflict)
