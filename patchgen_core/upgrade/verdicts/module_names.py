"""The names that a replacement uses: what the new module no longer binds, calls otherwise, or has other fields of."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from patchgen_core.syntax.forms import listed, quoted
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import FUNCTIONS, Definition, Function, decorator_names, methods
from patchgen_core.syntax.scope_analysis import find_scopes
from patchgen_core.syntax.signatures import signature_of
from patchgen_core.upgrade.results import Finding
from patchgen_core.upgrade.verdicts.function_results import results_change
from patchgen_core.upgrade.verdicts.lost_imports import import_again
from patchgen_core.upgrade.verdicts.module_view import ClassInModule, ModuleView, TargetDefinitions
from patchgen_core.upgrade.verdicts.replacements import ConfigReplacements, PatchReplacement
from patchgen_core.upgrade.verdicts.signature_changes import describe, fails, renamed, signature_form
from patchgen_core.upgrade.verdicts.target_changes import compare

_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__", "__class__"}


@dataclass(frozen=True)
class Bound:
    """What a name of a module's top level stands for: a class or function and where that stands, if it can be looked
    up, and the dotted name that it is imported from, if the module itself does not define it."""

    node: Definition | None = None
    module: Module | None = None
    is_own: bool = False
    source: str = ""


def name_findings(
    entry: PatchReplacement, patched: ConfigReplacements, old: ModuleView, new: ModuleView
) -> Iterator[Finding]:
    """What became of the names that a replacement uses."""
    if entry.node is None:
        return
    calls = _calls(entry.node)
    for name in used_names(entry.node):
        if name in patched.added or name in patched.targets or name in _BUILTINS or name == entry.target_name.name:
            continue
        before, after = bound(old, name), bound(new, name)
        if before is None:
            continue
        if after is None and import_again(name, patched, old, new) is not None:
            detail = f"the module no longer imports '{name}': the config has to"
            yield Finding("gone", before.source, "import", detail)
        elif after is None:
            yield _gone(name, before, new)
        else:
            yield from _changed(name, before, after, calls.get(name, []), old, new)


def used_names(node: ast.AST) -> list[str]:
    """The names of the module's top level that a definition refers to, in their order."""
    results: dict[str, None] = {}
    for reference in find_scopes(ast.Module([node], [])).references:  # type: ignore[list-item]
        if isinstance(reference.node, ast.Name) and reference.is_global(reference.node.id):
            results[reference.node.id] = None
    return list(results)


def bound(view: ModuleView, name: str) -> Bound | None:
    """What a name stands for in a release's module; None when nothing binds it."""
    definitions = view.definitions(name)
    if definitions:
        node = definitions[0] if len(definitions) == 1 else None
        return Bound(node, view.module, is_own=True)
    if name in view.imports:
        module, attribute = sorted(view.imports[name])[0]
        imported = view.imported(view.module, name)
        node = imported[1] if imported is not None and isinstance(imported[1], (ast.ClassDef, *FUNCTIONS)) else None
        source = f"{module}.{attribute}" if attribute else module
        return Bound(node, imported[0] if imported is not None else None, source=source)
    return Bound() if name in view.index.assigned else None


def _gone(name: str, before: Bound, new: ModuleView) -> Finding:
    if before.source:
        module, _, attribute = before.source.rpartition(".")
        still = new.library is not None and new.library.find(module, attribute) is not None
        where = f"; {module} still has it: add_import it" if still else ""
        return Finding("gone", before.source, "import", f"the module no longer imports '{name}'{where}", "must change")
    return Finding("gone", name, "used", f"the module no longer has '{name}'", "must change")


def _changed(
    name: str, before: Bound, after: Bound, calls: list[ast.Call], old: ModuleView, new: ModuleView
) -> Iterator[Finding]:
    """What is called otherwise than it was, or stands elsewhere."""
    about = before.source or name
    if before.node is not None and after.node is not None:
        functions, in_class = (called(before.node), called(after.node)), isinstance(after.node, ast.ClassDef)
        finding = call_finding(about, "used", calls, functions, in_class)
        finding = finding or _definition_finding(name, before, after, old, new)
        homes = _home(before), _home(after)
        if homes[0] is not None and homes[1] is not None:
            yield from output_findings(about, (old, homes[0]), (new, homes[1]), calls)
        if finding is not None:
            yield finding
            return
    if before.source != after.source:
        where = f"the module imports it from {after.source.rpartition('.')[0]} now" if after.source else ""
        detail = where or "the module defines it itself now"
        is_known = before.node is not None and after.node is not None
        yield Finding("moved", about, "import", detail, "safe" if is_known or not after.source else "review")


def _home(bind: Bound) -> ClassInModule | None:
    is_class = isinstance(bind.node, ast.ClassDef) and bind.module is not None
    return ClassInModule(bind.module, bind.node) if is_class else None  # type: ignore[arg-type]


def _calls(node: ast.AST) -> dict[str, list[ast.Call]]:
    """The calls of plain names, by name."""
    results: dict[str, list[ast.Call]] = {}
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            results.setdefault(call.func.id, []).append(call)
    return results


def call_finding(
    about: str,
    relation: str,
    calls: Iterable[ast.Call],
    functions: tuple[Function | None, Function | None],
    bound: bool,
    diff: str = "",
) -> Finding | None:
    """A call that fitted the old one of two functions and does not fit the new one; `bound` ones have self or cls in
    front."""
    old, new = functions
    if old is None or new is None or signature_form(old) == signature_form(new):
        return None
    why = _broken_call(calls, old, new, bound)
    detail = f"it {listed(describe(old, new))}; the replacement {why}"
    return Finding("signature changed", about, relation, detail, "must change", diff) if why else None


def called(node: Definition | None) -> Function | None:
    """The function that a call of a class or function runs; None where that is not evident."""
    if isinstance(node, ast.ClassDef):
        constructors = methods(node, "__init__")
        return constructors[0] if len(constructors) == 1 else None
    return node


def _broken_call(calls: Iterable[ast.Call], old: Function, new: Function, bound: bool) -> str:
    """Why a call that fitted a function no longer does; empty when all do."""
    before, after = signature_of(old, bound), signature_of(new, bound)
    others = renamed(old, new)
    for call in calls:
        why = fails(call, after, new)
        if why and not fails(call, before, old):
            return why
        for argument, was, now in zip(call.args, before.positional, after.positional):
            if isinstance(argument, ast.Starred):
                break
            if was.name != now.name and others.get(was.name) != now.name:
                return f"passes '{was.name}' by position, where '{now.name}' is now"
    return ""


def _definition_finding(name: str, before: Bound, after: Bound, old: ModuleView, new: ModuleView) -> Finding | None:
    """A function of the module itself that does something else."""
    if isinstance(before.node, ast.ClassDef) or isinstance(after.node, ast.ClassDef):
        return None  # what is made of a class, its own patches and the rules on calls look after
    if not (before.is_own and after.is_own) or before.node is None or after.node is None:
        return None
    target = (
        TargetDefinitions((before.node,), old.source, old.package),
        TargetDefinitions((after.node,), new.source, new.package),
    )
    change = compare(name, *target, (old.side.version, new.side.version), by_text=False)
    if change.kind in ("unchanged", "cosmetic"):
        return None
    results = results_change(before.node, after.node)
    if results is not None:
        return Finding(change.kind, name, "used", results[1], results[0], change.diff)
    return Finding(change.kind, name, "used", change.detail, "safe", change.diff)


# --- outputs -----------------------------------------------------------------------------------------


def is_output(node: ast.AST | None) -> bool:
    """Whether a definition is a dataclass by its own decorator."""
    return isinstance(node, ast.ClassDef) and "dataclass" in decorator_names(node)


def output_fields(view: ModuleView, home: ClassInModule) -> list[str] | None:
    """The fields of a dataclass with those of its bases, in their order; None when a base cannot be looked up."""
    results: list[str] = []
    for base in home.node.bases:
        if isinstance(base, ast.Name) and base.id == "ModelOutput":
            continue
        inner = view.class_of(home.module, base)
        more = output_fields(view, inner) if inner is not None else None
        if more is None:
            return None
        results += more
    targets = [s.target for s in home.node.body if isinstance(s, ast.AnnAssign)] if is_output(home.node) else []
    own = [target.id for target in targets if isinstance(target, ast.Name)]
    return [*results, *(field for field in own if field not in results)]


def output_findings(
    about: str,
    before: tuple[ModuleView, ClassInModule],
    after: tuple[ModuleView, ClassInModule],
    calls: Sequence[ast.Call],
) -> Iterator[Finding]:
    """Fields that calls pass to an output and that it has no more; with an output comes the module that uses it."""
    old, new = output_fields(*before), output_fields(*after)
    if not calls or not is_output(before[1].node) or old is None or new is None:
        return
    if old and not new and not is_output(after[1].node):
        yield Finding("changed", about, "output", "it is no longer a dataclass", "must change")
        return
    passed = {keyword.arg for call in calls for keyword in call.keywords if keyword.arg}
    gone = [field for field in old if field not in new and field in passed]
    if gone:
        detail = f"it no longer has the field {quoted(gone)}, which the replacement passes"
        yield Finding("changed", about, "output", detail, "must change")
    most = max(sum(not isinstance(argument, ast.Starred) for argument in call.args) for call in calls)
    if old[:most] != new[:most]:
        detail = f"its first fields, passed by position, are {quoted(new[:most])} instead of {quoted(old[:most])}"
        yield Finding("changed", about, "output", detail, "must change")
