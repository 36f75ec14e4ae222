"""Parameters that edits add or take out, in another release."""

from __future__ import annotations

import ast

from patchgen_core.errors import did_you_mean
from patchgen_core.syntax.nodes import FUNCTIONS
from patchgen_core.syntax.signatures import read_parameters
from patchgen_core.upgrade.carrying.carried_edit import CarriedEdit, DeclaredEdit
from patchgen_core.upgrade.carrying.definitions import ReleaseDefinition


def carry_parameter(edit: DeclaredEdit, old: ReleaseDefinition, new: ReleaseDefinition) -> CarriedEdit:
    """What becomes of an added parameter, beside one that may be called otherwise now, and of one that goes."""
    before, after = _names(old), _names(new)
    name = edit.code.partition(":")[0].partition("=")[0].strip()
    is_removal = edit.patch.kind == "parameter_removal"
    if is_removal and edit.patch.at in before and edit.patch.at not in after and len(after) < len(before):
        return CarriedEdit("now upstream", edit, f"upstream no longer has a parameter '{edit.patch.at}': delete it")
    if name in after:
        return CarriedEdit("now upstream", edit, f"upstream now has the parameter '{name}' itself: delete it")
    at = edit.patch.at
    if not at or at in after:
        return CarriedEdit("stays", edit)
    if at in before and len(before) == len(after):
        other = after[before.index(at)]
        others = [one for one in before if one != at] == [one for one in after if one != other]
        if other not in before and others:
            return CarriedEdit("moved", edit.changed(at=other), f"'{at}' is called '{other}' now")
    hint = did_you_mean(at, after) or f"It has: {', '.join(after)}."
    return CarriedEdit("gone", edit, f"it no longer has a parameter '{at}'; {hint[:1].lower()}{hint[1:].rstrip('.')}")


def _names(definition: ReleaseDefinition) -> list[str]:
    node: ast.AST = definition.node
    return [parameter.name for parameter in read_parameters(node)] if isinstance(node, FUNCTIONS) else []
