"""What happened to a definition of upstream's between two releases."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from patchgen_core.syntax.diffs import unified_diff
from patchgen_core.syntax.forms import PROSE, Ignored, body_form, form, listed, quoted, text_of
from patchgen_core.syntax.index import assigned_names
from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS, Definition, Function, all_methods, statements
from patchgen_core.upgrade.results import Kind
from patchgen_core.upgrade.verdicts.module_view import TargetDefinitions
from patchgen_core.upgrade.verdicts.signature_changes import describe, signature_form

CALLED = ("__init__", "forward", "__call__")
"""The methods by which a class is called."""


@dataclass(frozen=True)
class TargetChange:
    """What happened to a definition, and which functions' signatures differ, old and new, by name."""

    kind: Kind
    detail: str = ""
    diff: str = ""
    signatures: tuple[tuple[Function, Function], ...] = ()


def compare(
    name: str, old: TargetDefinitions, new: TargetDefinitions, versions: tuple[str, str], *, by_text: bool = True
) -> TargetChange:
    """What happened to a target that both releases have; without `by_text`, only what the texts say is compared."""
    before, after = texts(old), texts(new)
    if before == after if by_text else _forms(old) == _forms(new):
        return TargetChange("unchanged")
    diff = difference(name, before, after, versions)
    if _forms(old, PROSE) == _forms(new, PROSE):
        return TargetChange("cosmetic", _cosmetic(old, new), diff)
    if len(old.nodes) != len(new.nodes):
        detail = f"it is defined {_times(new.nodes)} instead of {_times(old.nodes)}"
        return TargetChange("changed", detail, diff)
    return _described(old, new, diff)


def texts(target: TargetDefinitions) -> str:
    """The text of a target's definitions at column 0."""
    return "\n".join(text_of(target.source, node) for node in target.nodes)


def difference(name: str, before: str, after: str, versions: tuple[str, str]) -> str:
    """A unified diff of upstream's own change."""
    return unified_diff(before, after, f"{name} ({versions[0]})", f"{name} ({versions[1]})")


def _forms(target: TargetDefinitions, ignore: Collection[Ignored] = ()) -> list[str]:
    return [form(node, target.package, ignore) for node in target.nodes]


def _times(nodes: Sequence[Definition]) -> str:
    return {1: "once", 2: "twice"}.get(len(nodes), f"{len(nodes)} times")


def _cosmetic(old: TargetDefinitions, new: TargetDefinitions) -> str:
    """What differs between two definitions that do the same."""
    parts = []
    if _forms(old, ["annotations"]) != _forms(new, ["annotations"]):
        parts.append("docstrings" if isinstance(old.nodes[0], ast.ClassDef) else "the docstring")
    if _forms(old, ["docstrings"]) != _forms(new, ["docstrings"]):
        parts.append("annotations")
    return f"only {listed(parts or ['comments or layout'])} differ{'s' if parts == ['the docstring'] else ''}"


def _described(old: TargetDefinitions, new: TargetDefinitions, diff: str) -> TargetChange:
    details: list[str] = []
    signatures: list[tuple[Function, Function]] = []
    has_decorators = False
    for before, after in zip(old.nodes, new.nodes):
        changed = decorator_changes(before, old.package, after, new.package)
        has_decorators |= bool(changed)
        if isinstance(before, ast.ClassDef) and isinstance(after, ast.ClassDef):
            pairs = _class_signatures(before, after)
            signatures += pairs
            details += _class_details(before, after, pairs, (old.package, new.package))
        elif isinstance(before, FUNCTIONS) and isinstance(after, FUNCTIONS):
            if signature_form(before) != signature_form(after):
                signatures.append((before, after))
                details += describe(before, after)
            if body_form(before, old.package) != body_form(after, new.package):
                details.append("its body changed")
        else:
            details.append("a class became a function" if isinstance(before, ast.ClassDef) else "it is a class now")
        details += changed
    kind: Kind = "signature changed" if signatures else "decorators changed" if has_decorators else "changed"
    is_plain = details == ["its body changed"] and kind == "changed"
    unique = list(dict.fromkeys(details))
    return TargetChange(kind, "" if is_plain else "; ".join(unique), diff, tuple(signatures))


def decorator_changes(old: Definition, old_package: str, new: Definition, new_package: str) -> list[str]:
    """Which decorators came and went."""
    before = {form(d, old_package): f"@{ast.unparse(d)}" for d in old.decorator_list}
    after = {form(d, new_package): f"@{ast.unparse(d)}" for d in new.decorator_list}
    gone = [text for key, text in before.items() if key not in after]
    come = [text for key, text in after.items() if key not in before]
    phrases = [f"loses {listed(gone)}"] if gone else []
    phrases += [f"gets {listed(come)}"] if come else []
    if not phrases and list(before) != list(after):
        phrases = [f"has its decorators in another order: {', '.join(after.values())}"]
    return phrases


# --- classes -----------------------------------------------------------------------------------------


def _class_signatures(old: ast.ClassDef, new: ast.ClassDef) -> list[tuple[Function, Function]]:
    """The methods by which a class is called whose signatures differ."""
    before, after = ({f.name: f for f in all_methods(node)} for node in (old, new))
    both = [(before[name], after[name]) for name in CALLED if name in before and name in after]
    return [(a, b) for a, b in both if signature_form(a) != signature_form(b)]


def _class_details(
    old: ast.ClassDef, new: ast.ClassDef, signatures: Sequence[tuple[Function, Function]], packages: tuple[str, str]
) -> list[str]:
    details = [f"'{after.name}' {', '.join(describe(before, after))}" for before, after in signatures]
    bases = [", ".join(ast.unparse(base) for base in (*node.bases, *node.keywords)) for node in (old, new)]
    if bases[0] != bases[1]:
        details.append(f"its bases are ({bases[1]}) instead of ({bases[0]})")
    before, after = (_members(node, package) for node, package in zip((old, new), packages))
    described = {function.name for function, _ in signatures}
    changed = [name for name in before if name in after and before[name] != after[name] and name not in described]
    added, removed = ([name for name in one if name not in other] for one, other in ((after, before), (before, after)))
    for names, verb in ((changed, "changes"), (added, "adds"), (removed, "drops")):
        details += [f"it {verb} {quoted(names)}"] if names else []
    return details


def _members(node: ast.ClassDef, package: str) -> dict[str, str]:
    """What a class body says, by the names that it binds."""
    members: dict[str, str] = {}
    for statement in statements(node.body):
        names = [statement.name] if isinstance(statement, DEFINITIONS) else assigned_names(statement)
        for name in names:
            members[name] = members.get(name, "") + form(statement, package, PROSE)
    return members
