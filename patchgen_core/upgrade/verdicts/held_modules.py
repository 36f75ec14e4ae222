"""Methods of upstream's other classes that a replacement relies on: of modules that its class holds, such as
``self.gate(...)``, and those that it names by their class."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from patchgen_core.syntax.forms import listed
from patchgen_core.syntax.nodes import Function, inside, last_name, methods
from patchgen_core.syntax.signatures import is_static
from patchgen_core.upgrade.results import Finding, Risk
from patchgen_core.upgrade.verdicts.function_results import results_change
from patchgen_core.upgrade.verdicts.module_names import call_finding, used_names
from patchgen_core.upgrade.verdicts.module_view import ClassInModule, ModuleView, TargetDefinitions, package_of
from patchgen_core.upgrade.verdicts.own_class import members_of, self_name
from patchgen_core.upgrade.verdicts.replacements import ConfigReplacements, PatchReplacement
from patchgen_core.upgrade.verdicts.signature_changes import describe, signature_form
from patchgen_core.upgrade.verdicts.target_changes import compare

_BUILDERS = frozenset(["_from_config", "from_config"])
_LISTS = frozenset(["ModuleList", "Sequential"])
_ITEM = "[]"
"""In a path, an entry of a list."""

Path = tuple[str, ...]
"""Where a method is: a class or ``self``, and attributes from there on."""


@dataclass
class _Uses:
    """What a replacement calls, and what it hands on, by paths."""

    calls: dict[Path, list[ast.Call]] = field(default_factory=dict)
    references: dict[Path, None] = field(default_factory=dict)


def held_findings(
    entry: PatchReplacement, patched: ConfigReplacements, old: ModuleView, new: ModuleView
) -> Iterator[Finding]:
    """What became of methods of other classes that a replacement calls or hands on."""
    uses = _uses_of(entry)
    for path in dict.fromkeys((*uses.calls, *uses.references)):
        before, after = (_find(view, entry, path) for view in (old, new))
        if before is None or after is None or _is_patched(before, patched):
            continue
        if before.home.module is not old.module or after.home.module is not new.module:
            continue  # a library's own, which changes with every release
        yield from _findings(path, before, after, uses, (old, new))


def _uses_of(entry: PatchReplacement) -> _Uses:
    uses = _Uses()
    classes = set(used_names(entry.node)) if entry.node is not None else set()
    for _, function in entry.functions:
        roots: dict[str, Path] = {name: (name,) for name in classes}
        own = self_name(function) if entry.cls else ""
        if own:
            roots[own] = ("self",)
        roots |= _loop_variables(function, roots)
        called: set[int] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                path = _path(node.func, roots)
                called.add(id(node.func))
                if path is not None and len(path) > 1:
                    uses.calls.setdefault(path, []).append(node)
            elif isinstance(node, ast.Attribute) and id(node) not in called and isinstance(node.ctx, ast.Load):
                path = _path(node, roots)
                if path is not None and path[0] != "self":
                    uses.references.setdefault(path, None)
    return uses


def _loop_variables(function: Function, roots: dict[str, Path]) -> dict[str, Path]:
    """What loops over lists of modules call an entry."""
    results: dict[str, Path] = {}
    for node in inside(function):
        if not isinstance(node, (ast.For, ast.comprehension)):
            continue
        target, values = node.target, node.iter
        if isinstance(values, ast.Call) and last_name(values.func) == "enumerate" and values.args:
            values = values.args[0]
            target = target.elts[1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else target
        path = _path(values.value if isinstance(values, ast.Subscript) else values, roots)
        if path is not None and isinstance(target, ast.Name):
            results[target.id] = (*path, _ITEM)
    return results


def _path(node: ast.expr, roots: dict[str, Path]) -> Path | None:
    """Where an expression leads from a known name on; None for anything but attributes and entries of it."""
    if isinstance(node, ast.Name):
        return roots.get(node.id)
    if isinstance(node, ast.Attribute):
        path = _path(node.value, roots)
        return (*path, node.attr) if path is not None else None
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
        path = _path(node.value, roots)
        return (*path, _ITEM) if path is not None else None
    return None


# --- what a path leads to ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Method:
    """A method that a path leads to; `holder` is the class that it is looked for in."""

    holder: ClassInModule
    home: ClassInModule
    function: Function

    @property
    def dotted(self) -> str:
        return f"{self.holder.node.name}.{self.function.name}"


def _find(view: ModuleView, entry: PatchReplacement, path: Path) -> _Method | None:
    """The method of another class of the module that a path leads to."""
    if path[0] == "self":
        classes = view.classes(entry.target_name.name)
        current = ClassInModule(view.module, classes[0]) if len(classes) == 1 else None
        if current is not None and isinstance(entry.node, ast.ClassDef):
            current = ClassInModule(view.module, entry.node)
    else:
        classes = view.classes(path[0])
        current = ClassInModule(view.module, classes[0]) if len(classes) == 1 else None
    for number, name in enumerate(path[1:], 1):
        if current is None:
            return None
        if number == len(path) - 1 and (path[0] != "self" or number > 1):
            method = _method(view, current, name)
            if method is not None:
                return method
        if path[0] != "self":
            return None
        is_list = number + 1 < len(path) and path[number + 1] == _ITEM
        current = current if name == _ITEM else _held(view, current, name, is_list)
    return _method(view, current, "forward") if current is not None else None


def _method(view: ModuleView, holder: ClassInModule, name: str) -> _Method | None:
    for home in (holder, *view.bases(holder)):
        functions = methods(home.node, name)
        if functions:
            is_property = any("property" in ast.unparse(d) for d in functions[0].decorator_list)
            return _Method(holder, home, functions[0]) if len(functions) == 1 and not is_property else None
    return None


def _held(view: ModuleView, holder: ClassInModule, name: str, is_list: bool) -> ClassInModule | None:
    """The class of the module that an attribute holds, or its entries are of."""
    for home in (holder, *view.bases(holder)):
        values = members_of(home.node).assigned.get(name)
        if values:
            classes = {_made_of(view, home, value, is_list) for value in values}
            return classes.pop() if len(classes) == 1 else None
    return None


def _made_of(view: ModuleView, home: ClassInModule, value: ast.expr, is_list: bool) -> ClassInModule | None:
    if is_list:
        entries = value.args[:1] if isinstance(value, ast.Call) and last_name(value.func) in _LISTS else []
        inner = entries[0] if entries else None
        if isinstance(inner, (ast.ListComp, ast.GeneratorExp)):
            return _made_of(view, home, inner.elt, False)
        return None
    if not isinstance(value, ast.Call):
        return None
    maker = value.func
    if isinstance(maker, ast.Attribute) and maker.attr in _BUILDERS:
        maker = maker.value
    return view.class_named(home.module, maker.id) if isinstance(maker, ast.Name) else None


def _is_patched(method: _Method, patched: ConfigReplacements) -> bool:
    """Whether a patch takes a method's place, so that upstream's change of it is that patch's."""
    names = {method.dotted, f"{method.home.node.name}.{method.function.name}", method.holder.node.name}
    return any(other.target_name.dotted in names and not other.patch.is_edit for other in patched.patches)


# --- findings ------------------------------------------------------------------------------------------


def _findings(
    path: Path, before: _Method, after: _Method, uses: _Uses, views: tuple[ModuleView, ModuleView]
) -> Iterator[Finding]:
    old, new = before.function, after.function
    targets = [
        TargetDefinitions((m.function,), m.home.module.source, package_of(m.home.module), m.home)
        for m in (before, after)
    ]
    versions = (views[0].side.version, views[1].side.version)
    change = compare(before.dotted, targets[0], targets[1], versions, by_text=False)
    if change.kind in ("unchanged", "cosmetic"):
        return
    is_bound = path[0] == "self" and not is_static(new)
    broken = call_finding(before.dotted, "used", uses.calls.get(path, []), (old, new), is_bound, change.diff)
    if broken is not None:
        yield broken
    elif path in uses.references and signature_form(old) != signature_form(new):
        detail = f"it {listed(describe(old, new))}; the replacement hands it on"
        yield Finding("signature changed", before.dotted, "used", detail, "review", change.diff)
    else:
        risk, detail = results_change(old, new) or _unharmed(change.detail)
        yield Finding(change.kind, before.dotted, "used", detail, risk, change.diff)


def _unharmed(detail: str) -> tuple[Risk, str]:
    told: Sequence[str] = [detail] if detail else []
    return "safe", "; ".join([*told, "what it returns is made as before"])
