"""What a replacement takes from its own class: attributes that it reads, methods that it calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from patchgen_core.codegen.renaming import ORIGINAL_INIT
from patchgen_core.syntax.forms import contrasted, form
from patchgen_core.syntax.index import assigned_names
from patchgen_core.syntax.nodes import DEFINITIONS, Function, all_methods, decorator_names, methods, statements
from patchgen_core.syntax.signatures import instance_name, is_static
from patchgen_core.upgrade.results import Finding, Risk
from patchgen_core.upgrade.verdicts.function_results import results_change
from patchgen_core.upgrade.verdicts.module_names import call_finding
from patchgen_core.upgrade.verdicts.module_view import ClassInModule, ModuleView, TargetDefinitions, package_of
from patchgen_core.upgrade.verdicts.replacements import ConfigReplacements, PatchReplacement
from patchgen_core.upgrade.verdicts.target_changes import compare

_REGISTERING = frozenset(["register_buffer", "register_parameter", "register_module", "add_module"])


@dataclass
class Members:
    """What a class body gives its instances, bases aside: all names, and what methods assign to attributes of them."""

    names: set[str] = field(default_factory=set)
    assigned: dict[str, list[ast.expr]] = field(default_factory=dict)


@dataclass
class Reads:
    """What functions take from ``self``: attributes, and calls of methods, of ``super()``'s as well."""

    attributes: dict[str, None] = field(default_factory=dict)
    calls: dict[str, list[ast.Call]] = field(default_factory=dict)
    super_calls: dict[str, list[ast.Call]] = field(default_factory=dict)
    original: list[ast.Call] = field(default_factory=list)


@lru_cache(maxsize=4096)
def members_of(node: ast.ClassDef) -> Members:
    """What a class body gives its instances."""
    members = Members()
    for statement in statements(node.body):
        if isinstance(statement, DEFINITIONS):
            members.names.add(statement.name)
        else:
            members.names.update(assigned_names(statement))
    for function in all_methods(node):
        own = assigned_by(function)
        members.names |= own.names
        for name, values in own.assigned.items():
            members.assigned.setdefault(name, []).extend(values)
    return members


@lru_cache(maxsize=8192)
def assigned_by(function: Function) -> Members:
    """What a method assigns to attributes of its instance."""
    members = Members()
    name = self_name(function)
    for node in statements(function.body) if name else ():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            members.names |= _registered(node.value)
            continue
        value = getattr(node, "value", None)
        is_plain = isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(value, ast.expr)
        for target in _assigned_targets(node):
            if _is_own(target, name) and isinstance(target, ast.Attribute):
                members.names.add(target.attr)
                members.assigned.setdefault(target.attr, []).append(value if is_plain and value else target)
    return members


def _assigned_targets(node: ast.stmt) -> list[ast.expr]:
    """What a statement assigns, the entries of tuples each."""
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        return [node.target]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]


def _registered(call: ast.Call) -> set[str]:
    """The attribute that a call such as ``self.register_buffer("scale", ...)`` or ``setattr`` sets."""
    place = -1
    if isinstance(call.func, ast.Attribute) and call.func.attr in _REGISTERING:
        place = 0
    elif isinstance(call.func, ast.Name) and call.func.id == "setattr":
        place = 1
    named = call.args[place] if 0 <= place < len(call.args) else None
    return {str(named.value)} if isinstance(named, ast.Constant) else set()


def self_name(function: Function) -> str:
    """What a method calls its instance; empty when it has none."""
    return "" if "classmethod" in decorator_names(function) else instance_name(function)


def _is_own(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name


def reads_of(functions: list[Function], cls: str) -> Reads:
    """What functions take from ``self``."""
    reads = Reads()
    for function in functions:
        name = self_name(function)
        called: set[int] = set()
        for node in ast.walk(function):  # a call comes before what it calls
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called.add(id(node.func))
                _note_call(node, node.func, name, cls, reads)
            elif id(node) not in called and isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                reads.attributes.update({node.attr: None} if _is_own(node, name) else {})
    return reads


def _note_call(call: ast.Call, function: ast.Attribute, name: str, cls: str, reads: Reads) -> None:
    """Note a call of a method of ``self``, of ``super()``, or of upstream's ``__init__``."""
    holder, method = function.value, function.attr
    if _is_own(function, name):
        reads.calls.setdefault(method, []).append(call)
    elif isinstance(holder, ast.Call) and isinstance(holder.func, ast.Name) and holder.func.id == "super":
        reads.super_calls.setdefault(method, []).append(call)
    elif isinstance(holder, ast.Name) and holder.id == cls and method == ORIGINAL_INIT:
        reads.original.append(call)


# --- findings ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _OwnClass:
    """The class of a patch in two releases, each before its bases; what the replacement takes from it, and what
    patches give it."""

    entry: PatchReplacement
    views: tuple[ModuleView, ModuleView]
    lines: tuple[list[ClassInModule], list[ClassInModule]]
    reads: Reads
    patched_names: set[str]

    def attribute_findings(self) -> Iterator[Finding]:
        """Attributes and methods that the class no longer has, or that get another value than they did."""
        old, new = (view.unknown_bases(line[0]) for view, line in zip(self.views, self.lines))
        for name in dict.fromkeys((*self.reads.attributes, *self.reads.calls)):
            before, after = (_holder(line, name) for line in self.lines)
            if name in self.patched_names or before is None:
                continue
            about = f"{self.entry.cls}.{name}"
            if after is not None:
                values = (members.assigned.get(name, []) for _, members in (before, after))
                yield from _value_findings(about, after[0], *values)
            elif not new - old:
                what = "no longer sets it" if name in before[1].assigned else "has it no more"
                use = "calls" if name in self.reads.calls else "reads"
                detail = f"'{self.entry.cls}' {what}, and the replacement {use} it"
                yield Finding("gone", about, "used", detail, "must change")

    def method_findings(self, method: str, relation: str, calls: list[ast.Call]) -> Iterator[Finding]:
        """A method that is called otherwise than it was, or does something else."""
        start = int(relation == "base")
        before, after = (_method(line[start:], method) for line in self.lines)
        if before is None or after is None:
            return
        (old_home, old), (new_home, new) = before, after
        about = f"{new_home.node.name}.{method}"
        targets = [
            TargetDefinitions((f,), home.module.source, package_of(home.module), home) for home, f in (before, after)
        ]
        versions = (self.views[0].side.version, self.views[1].side.version)
        change = compare(about, targets[0], targets[1], versions, by_text=False)
        broken = call_finding(about, relation, calls, (old, new), not is_static(new), change.diff)
        is_far = new_home.module is not self.views[1].module or old_home.module is not self.views[0].module
        if broken is not None:
            yield broken
        elif change.kind not in ("unchanged", "cosmetic") and not is_far:
            results = results_change(old, new) if relation == "used" else None
            risk: Risk = "review" if relation == "base" else "safe"
            risk, detail = results or (risk, change.detail)
            yield Finding(change.kind, about, relation, detail, risk, change.diff)


def self_findings(
    entry: PatchReplacement, patched: ConfigReplacements, old: ModuleView, new: ModuleView
) -> Iterator[Finding]:
    """What became of what a replacement takes from its class."""
    before, after = old.classes(entry.target_name.name), new.classes(entry.target_name.name)
    if not entry.cls or entry.node is None or len(before) != 1 or len(after) != 1:
        return
    lines = _line(entry, old, before[0]), _line(entry, new, after[0])
    reads = reads_of([function for _, function in entry.functions], entry.cls)
    own = _OwnClass(entry, (old, new), lines, reads, _patched_names(entry, patched, lines[1]))
    yield from own.attribute_findings()
    for method, calls in reads.calls.items():
        yield from own.method_findings(method, "used", calls) if method not in own.patched_names else ()
    for method, calls in reads.super_calls.items():
        yield from own.method_findings(method, "base", calls)
    constructors = [methods(node, "__init__") for node in (before[0], after[0])]
    if len(constructors[0]) == len(constructors[1]) == 1:
        functions = constructors[0][0], constructors[1][0]
        broken = call_finding(f"{after[0].name}.__init__", "used", reads.original, functions, bound=False)
        yield from [broken] if broken is not None else []


def _line(entry: PatchReplacement, view: ModuleView, node: ast.ClassDef) -> list[ClassInModule]:
    """A class and its bases; a replaced class is what replaces it, with the bases that upstream's names mean."""
    own = ClassInModule(view.module, entry.node if isinstance(entry.node, ast.ClassDef) else node)
    return [own, *view.bases(own)]


def _patched_names(entry: PatchReplacement, patched: ConfigReplacements, line: list[ClassInModule]) -> set[str]:
    """What patches give the class and its bases."""
    names = {home.node.name for home in line} | {entry.target_name.name}
    results: set[str] = set()
    for other in patched.patches:
        if other.target_name.name not in names or other.node is None:
            continue
        if isinstance(other.node, ast.ClassDef):
            results |= members_of(other.node).names
        else:
            results |= assigned_by(other.node).names | {other.target_name.method}
    return results


def _holder(line: list[ClassInModule], name: str) -> tuple[ClassInModule, Members] | None:
    """The first class that gives instances an attribute."""
    for home in line:
        members = members_of(home.node)
        if name in members.names:
            return home, members
    return None


def _value_findings(
    about: str, home: ClassInModule, before: list[ast.expr], after: list[ast.expr]
) -> Iterator[Finding]:
    """What a class sets an attribute to, if that differs."""
    if not before or not after or list(map(form, before)) == list(map(form, after)):
        return
    texts = [" or ".join(dict.fromkeys(map(ast.unparse, values))) for values in (before, after)]
    was, now = contrasted(texts[0], texts[1])
    makers = [_makers(values) for values in (before, after)]
    risk: Risk = "safe" if makers[0] and makers[0] == makers[1] else "review"
    yield Finding("changed", about, "used", f"'{home.node.name}' sets it to {now} instead of {was}", risk)


def _makers(values: list[ast.expr]) -> set[str]:
    """The classes that values are made of, whatever they are given; empty when one is made otherwise."""
    names = {ast.unparse(value.func) if isinstance(value, ast.Call) else "" for value in values}
    return names if all(name.rpartition(".")[2][:1].isupper() for name in names) else set()


def _method(line: list[ClassInModule], name: str) -> tuple[ClassInModule, Function] | None:
    """The one definition of a method in the first class that has it; None for a property or several."""
    for home in line:
        functions = methods(home.node, name)
        if functions:
            is_property = any("property" in ast.unparse(d) for d in functions[0].decorator_list)
            return (home, functions[0]) if len(functions) == 1 and not is_property else None
        if name in members_of(home.node).names:
            return None
    return None
