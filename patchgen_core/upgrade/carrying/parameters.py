"""Parameters that edits add or take out, in another release."""

from __future__ import annotations

import ast

from patchgen_core.config.declarations import PatchKind
from patchgen_core.errors import did_you_mean
from patchgen_core.syntax.forms import is_same_code
from patchgen_core.syntax.nodes import FUNCTIONS
from patchgen_core.syntax.signatures import Parameter, read_parameters
from patchgen_core.upgrade.carrying.carried_edit import CarriedEdit, DeclaredEdit, compose_edits
from patchgen_core.upgrade.carrying.definitions import ReleaseDefinition
from patchgen_core.upgrade.results import Conflict

PARAMETERS: tuple[PatchKind, ...] = ("parameter_addition", "parameter_removal")
"""The kinds of edits of a signature."""
_KINDS = {"position": "by position", "either": "by position or by name", "keyword": "by name"}


def carry_parameter(edit: DeclaredEdit, old: ReleaseDefinition, new: ReleaseDefinition) -> CarriedEdit:
    """What becomes of an added parameter, beside one that may be called otherwise now, and of one that goes."""
    before, after = _names(old), _names(new)
    name = parameter_name(edit)
    is_removal = edit.patch.kind == "parameter_removal"
    if is_removal and edit.patch.at in before and edit.patch.at not in after and len(after) < len(before):
        return CarriedEdit("now upstream", edit, f"upstream no longer has a parameter '{name}'")
    if not is_removal and name in after:
        return _upstreams(edit, name, old, new)
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


def parameter_name(edit: DeclaredEdit) -> str:
    """The parameter that an edit adds or takes out."""
    if edit.patch.kind == "parameter_removal":
        return edit.patch.at
    return edit.code.partition(":")[0].partition("=")[0].strip()


def find_parameter(node: ast.AST, name: str) -> Parameter | None:
    """The parameter of a name that a function has."""
    parameters = read_parameters(node) if isinstance(node, FUNCTIONS) else []
    return next((parameter for parameter in parameters if parameter.name == name), None)


def _upstreams(edit: DeclaredEdit, name: str, old: ReleaseDefinition, new: ReleaseDefinition) -> CarriedEdit:
    """A parameter that upstream has now: nothing is left of the edit where it is the same one."""
    ours = find_parameter(compose_edits([edit], old), name)
    theirs = find_parameter(new.node, name)
    assert ours is not None
    assert theirs is not None
    difference = _difference(ours, theirs)
    if not difference:
        return CarriedEdit("now upstream", edit, f"upstream now has the parameter '{name}' itself")
    return parameter_conflict(edit, f"upstream now has a parameter '{name}' itself, {difference}", new)


def _difference(ours: Parameter, theirs: Parameter) -> str:
    """How upstream's parameter is another one than the edit's, whatever their annotations; empty where it is none."""
    if ours.kind != theirs.kind:
        return f"which callers pass {_KINDS[theirs.kind]}, and the edit's {_KINDS[ours.kind]}"
    defaults = [ours.default, theirs.default]
    texts = [ast.unparse(default) if default is not None else "" for default in defaults]
    if (ours.default is None) != (theirs.default is None):
        return "without a default" if theirs.default is None else f"with the default {texts[1]}"
    if ours.default is None or theirs.default is None or is_same_code(ours.default, theirs.default):
        return ""
    return f"whose default is {texts[1]} instead of {texts[0]}"


def parameter_conflict(edit: DeclaredEdit, reason: str, new: ReleaseDefinition) -> CarriedEdit:
    """An edit of a parameter that a person has to decide about."""
    parameter = find_parameter(new.node, parameter_name(edit))
    theirs = _parameter_text(parameter) if parameter is not None else ""
    conflict = Conflict(1, reason, "", edit.patch.code, theirs, merged_line=1)
    return CarriedEdit("changed", edit, reason, conflict=conflict)


def _parameter_text(parameter: Parameter) -> str:
    text = ast.unparse(parameter.node) if parameter.node is not None else parameter.name
    if parameter.default is None:
        return text
    equals = " = " if parameter.node is not None and parameter.node.annotation is not None else "="
    return f"{text}{equals}{ast.unparse(parameter.default)}"


def _names(definition: ReleaseDefinition) -> list[str]:
    node: ast.AST = definition.node
    return [parameter.name for parameter in read_parameters(node)] if isinstance(node, FUNCTIONS) else []
