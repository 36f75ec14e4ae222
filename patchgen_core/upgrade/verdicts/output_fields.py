"""The outputs that a replacement builds: fields that are gone or stand elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from patchgen_core.syntax.forms import quoted
from patchgen_core.syntax.nodes import decorator_names
from patchgen_core.upgrade.results import Finding
from patchgen_core.upgrade.verdicts.module_view import ClassInModule, ModuleView


def is_output(node: ast.AST | None) -> bool:
    """Whether a definition is a dataclass by its own decorator."""
    return isinstance(node, ast.ClassDef) and "dataclass" in decorator_names(node)


def fields_of(view: ModuleView, home: ClassInModule) -> list[str] | None:
    """The fields of a dataclass with those of its bases, in their order; None when a base cannot be looked up."""
    results: list[str] = []
    for base in home.node.bases:
        if isinstance(base, ast.Name) and base.id == "ModelOutput":
            continue
        inner = view.class_of(home.module, base)
        more = fields_of(view, inner) if inner is not None else None
        if more is None:
            return None
        results += more
    declared = [s.target for s in home.node.body if isinstance(s, ast.AnnAssign)] if is_output(home.node) else []
    own = [target.id for target in declared if isinstance(target, ast.Name)]
    return [*results, *(field for field in own if field not in results)]


def output_findings(
    about: str,
    before: tuple[ModuleView, ClassInModule],
    after: tuple[ModuleView, ClassInModule],
    calls: Sequence[ast.Call],
) -> Iterator[Finding]:
    """Fields that calls pass to an output and that it has no more; with an output comes the module that uses it."""
    old, new = fields_of(*before), fields_of(*after)
    if not calls or not is_output(before[1].node) or old is None or new is None:
        return
    if old and not new and not is_output(after[1].node):
        yield Finding("changed", about, "output", "it is no dataclass any more", "must change")
        return
    passed = {keyword.arg for call in calls for keyword in call.keywords if keyword.arg}
    gone = [field for field in old if field not in new and field in passed]
    if gone:
        detail = f"it has no field {quoted(gone)} any more, which the replacement passes"
        yield Finding("changed", about, "output", detail, "must change")
    most = max(sum(not isinstance(argument, ast.Starred) for argument in call.args) for call in calls)
    if old[:most] != new[:most]:
        detail = f"its first fields, passed by position, are {quoted(new[:most])} instead of {quoted(old[:most])}"
        yield Finding("changed", about, "output", detail, "must change")
