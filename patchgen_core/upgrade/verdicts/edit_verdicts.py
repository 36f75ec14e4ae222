"""What happened to the place of an edit, where upstream changed its target."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from patchgen_core.config.declarations import Patch
from patchgen_core.syntax.diffs import unified_diff
from patchgen_core.syntax.forms import contrasted, quoted
from patchgen_core.syntax.nodes import FUNCTIONS
from patchgen_core.upgrade.carrying.carried_edit import CarriedEdit, DeclaredEdit, State, why_not
from patchgen_core.upgrade.carrying.carry import Others, carry_edit
from patchgen_core.upgrade.carrying.definitions import ReleaseDefinition
from patchgen_core.upgrade.carrying.values import value_findings
from patchgen_core.upgrade.results import Finding, Kind, Risk
from patchgen_core.upgrade.verdicts.module_names import bound, used_names
from patchgen_core.upgrade.verdicts.module_view import ModuleView, TargetDefinitions, TargetName
from patchgen_core.upgrade.verdicts.own_class import reads_of
from patchgen_core.upgrade.verdicts.replacements import PatchReplacement
from patchgen_core.upgrade.verdicts.target_changes import TargetChange

_KINDS: dict[State, Kind] = {
    "stays": "changed elsewhere",
    "moved": "place moved",
    "changed": "place changed",
    "ambiguous": "place ambiguous",
    "gone": "place gone",
    "now upstream": "now upstream",
}
_MOST = 8


def definition_of(target: TargetDefinitions | None) -> ReleaseDefinition | None:
    """The one definition of a target that edits can be of; None for several, and for one that is inherited."""
    if target is None or len(target.nodes) != 1 or target.home is not None:
        return None
    return ReleaseDefinition(target.nodes[0], target.source, target.package)


def other_functions(old: ModuleView, new: ModuleView, target: TargetName) -> Others:
    """The functions of the new module, but for the target, that the old one lacks or has otherwise."""
    before = {name: node for name, node in old.source.definitions if isinstance(node, FUNCTIONS)}
    results: dict[str, tuple[ReleaseDefinition | None, ReleaseDefinition]] = {}
    for name, node in new.source.definitions:
        is_other = name in new.owners and name != target.dotted and new.owners[name] != old.owners.get(name)
        if is_other and isinstance(node, FUNCTIONS) and name.count(".") < 2:
            was = ReleaseDefinition(before[name], old.source, old.package) if name in before else None
            results[name] = (was, ReleaseDefinition(node, new.source, new.package))
    return results


def carried_edit(edit: DeclaredEdit, target: TargetName, old: ModuleView, new: ModuleView) -> CarriedEdit | None:
    """What becomes of an edit whose target both releases have once as the class's, or the module's, own."""
    before, after = definition_of(old.find(target)), definition_of(new.find(target))
    if before is None or after is None:
        return None
    return carry_edit(edit, before, after, other_functions(old, new, target))


def edit_finding(
    name: str, carried: CarriedEdit, change: TargetChange, new: ReleaseDefinition, original: DeclaredEdit
) -> Finding:
    """What is said of an edit's target."""
    kind = _KINDS[carried.state]
    if carried.state == "stays":
        return Finding(kind, name, "target", change.detail, "safe", change.diff)
    if carried.state == "now upstream":
        return Finding(kind, name, "target", f"{carried.detail}: delete it", "review", change.diff)
    risk = place_risk(carried, original, new)
    details, diff = [carried.detail], change.diff
    if carried.base or carried.theirs:
        was, now = contrasted(_line(carried.base), _line(carried.theirs))
        details.insert(0, f"`{was}` is `{now}` now")
        diff = unified_diff(f"{carried.base}\n", f"{carried.theirs}\n", f"{name}, the edit's place", f"{name}, now")
    return Finding(kind, name, "target", "; ".join(filter(None, details)), risk, diff)


def place_risk(carried: CarriedEdit, edit: DeclaredEdit, new: ReleaseDefinition) -> Risk:
    """Whether an edit whose place changed does not fit the new release as it is."""
    return "must change" if carried.state in ("gone", "ambiguous") or why_not(edit, new) else "review"


def _line(text: str) -> str:
    return " ".join(text.split())


def edit_value_findings(
    entry: PatchReplacement, carried: CarriedEdit, old: ModuleView, new: ModuleView
) -> tuple[list[Finding], list[str]]:
    """What is other of the local names that an edit uses, and which of them mean the same."""
    before, after = definition_of(old.find(entry.target_name)), definition_of(new.find(_target(carried.edit.patch)))
    if before is None or after is None or entry.edit is None or carried.state in ("gone", "ambiguous", "now upstream"):
        return [], []
    return value_findings(entry.edit, carried, before, after)


def _target(patch: Patch) -> TargetName:
    name, *rest = patch.target.split(".")
    method, accessor = (*rest, "", "")[:2]
    return TargetName(name, method, "" if accessor == "getter" else accessor)


def names_detail(entry: PatchReplacement, same: Sequence[str], findings: Sequence[Finding], old: ModuleView) -> str:
    """What is said of the names that an edit uses, as far as findings say nothing of them."""
    told = {part for finding in findings for part in (finding.about, finding.about.rpartition(".")[2])}
    names = [name for name in dict.fromkeys((*same, *_other_names(entry, old))) if name.rpartition(".")[2] not in told]
    if not names:
        return ""
    shown = quoted(names[:_MOST]) + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
    if told - {entry.target_name.dotted, entry.target_name.method}:
        return f"{shown} mean{'s' * (len(names) == 1)} the same there"
    return f"every name that the edit uses means the same there: {shown}"


def _other_names(entry: PatchReplacement, old: ModuleView) -> Iterator[str]:
    """What an edit takes from its instance and from the module."""
    if entry.node is None or isinstance(entry.node, ast.ClassDef):
        return
    reads = reads_of([entry.node], entry.cls)
    yield from (f"self.{name}" for name in (*reads.attributes, *reads.calls))
    yield from (name for name in used_names(entry.node) if bound(old, name) is not None)
