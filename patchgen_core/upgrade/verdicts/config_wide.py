"""What a release does to what a config declares beside its patches: helpers, imports, and names that it takes out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.codegen.added_code import unique
from patchgen_core.codegen.removal import excluded_methods
from patchgen_core.syntax.nodes import methods
from patchgen_core.upgrade.results import Finding
from patchgen_core.upgrade.verdicts.module_view import ModuleView, TargetName
from patchgen_core.upgrade.verdicts.replacements import ConfigReplacements, is_replacement
from patchgen_core.upgrade.verdicts.similar_code import moved


def config_wide_findings(patched: ConfigReplacements, old: ModuleView, new: ModuleView) -> list[Finding]:
    """What concerns a config as a whole and no patch of it."""
    findings = [*_anchors(patched, old, new), *_excluded(patched, old, new), *_dropped(patched, old, new)]
    findings += [*_decorators(patched, old, new), *_imports(patched, old, new), *_helpers(patched, old, new)]
    return list(dict.fromkeys(findings))


def _where(name: str, old: ModuleView, new: ModuleView) -> str:
    """Where a name of the module is now, as the end of a sentence."""
    place = moved(TargetName(name), old, new)
    return f"; it is {place[0]} now: {place[1]}" if place is not None else ""


def _anchors(patched: ConfigReplacements, old: ModuleView, new: ModuleView) -> Iterator[Finding]:
    for helper in patched.helpers.values():
        after = helper.helper.after
        if after is not None and after in old.index.definitions and after not in new.index.definitions:
            place = moved(TargetName(after), old, new)
            detail = f"the helper '{helper.name}' follows it{_where(after, old, new)}"
            yield Finding("gone" if place is None else "moved", after, "anchor", detail, "must change")
    for after, _ in unique(patched.config.positioned_blocks):
        if after in old.index.definitions and after not in new.index.definitions:
            place = moved(TargetName(after), old, new)
            detail = f"a block follows it{_where(after, old, new)}"
            yield Finding("gone" if place is None else "moved", after, "anchor", detail, "must change")


def _excluded(patched: ConfigReplacements, old: ModuleView, new: ModuleView) -> Iterator[Finding]:
    for name in unique(patched.config.exclude):
        if _has(old, name) and not _has(new, name):
            detail = f"upstream no longer defines it: exclude_from_output need not name it{_where(name, old, new)}"
            if name in new.index.imports:
                detail = "upstream imports it now: use drop_import_names"
            yield Finding("gone", name, "excluded", detail, "must change")


def _has(view: ModuleView, name: str) -> bool:
    """Whether a module defines what exclude_from_output names."""
    return name in view.index.definitions or name in view.index.assigned or bool(excluded_methods(view.index, name))


def _dropped(patched: ConfigReplacements, old: ModuleView, new: ModuleView) -> Iterator[Finding]:
    for name in unique(patched.config.drop_imported_names):
        if name not in old.index.imports:
            continue
        if name not in new.index.names:
            detail = "upstream no longer imports it: drop_import_names need not name it"
            yield Finding("gone", name, "dropped", detail, "must change")
        elif name not in new.index.imports:
            detail = "upstream defines it itself now, so that drop_import_names does nothing"
            yield Finding("moved", name, "dropped", detail, "review")


def _decorators(patched: ConfigReplacements, old: ModuleView, new: ModuleView) -> Iterator[Finding]:
    for target, name in unique(patched.config.dropped_decorators):
        if name in _decorator_names(old, target) and name not in _decorator_names(new, target):
            about = f"@{name.removeprefix('@')} of {target}"
            cls = target.partition(".")[0]
            detail = "upstream no longer has it: drop_decorators need not name it"
            if cls not in new.index.definitions:
                detail = f"'{cls}' is gone{_where(cls, old, new)}"
            yield Finding("gone", about, "dropped", detail, "must change")


def _decorator_names(view: ModuleView, target: str) -> set[str]:
    """The decorators of a class, method or function, by every name that drop_decorators takes for them."""
    cls, _, method = target.partition(".")
    nodes = view.definitions(cls)
    if method:
        nodes = [function for node in nodes for function in methods(node, method)]
    results: set[str] = set()
    for node in nodes:
        for decorator in node.decorator_list:
            full = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
            results |= {full, f"@{full}", full.rpartition(".")[2]}
    return results


def _imports(patched: ConfigReplacements, old: ModuleView, new: ModuleView) -> Iterator[Finding]:
    for name, (module, attribute) in patched.imports.items():
        about = f"{module}.{attribute}" if attribute else module
        if module.partition(".")[0] == new.name.partition(".")[0]:
            reason = _why_lost(module, attribute, old, new)
            if reason:
                yield Finding("gone", about, "import", reason, "must change")
                continue
        dropped = name in patched.config.drop_imported_names
        before, after = old.imports.get(name, frozenset()), new.imports.get(name, frozenset())
        if dropped or before == after:
            continue
        if after == {(module, attribute)}:
            detail = "upstream imports it itself now: the add_import can go"
            yield Finding("now upstream", about, "import", detail, "safe")
        elif after:
            source = sorted(after)[0][0]
            detail = f"upstream imports '{name}' from {source} now, which the add_import would hide"
            yield Finding("changed", about, "import", detail, "must change")


def _why_lost(module: str, attribute: str, old: ModuleView, new: ModuleView) -> str:
    """Why a name that the config imports from upstream's package cannot be imported any more; empty when it can."""
    if old.library is None or new.library is None:
        return ""
    before, after = old.library.module(module), new.library.module(module)
    if before is None:
        return ""
    if after is None:
        return f"the module {module} no longer exists"
    if attribute and attribute in before.index.names and attribute not in after.index.names:
        has_lazy = "__getattr__" in after.index.names or after.source.path.name == "__init__.py"
        return "" if has_lazy else f"{module} no longer has '{attribute}'"
    return ""


def _helpers(patched: ConfigReplacements, old: ModuleView, new: ModuleView) -> Iterator[Finding]:
    """Helpers whose names the new module binds itself."""
    for name, helper in patched.helpers.items():
        if name in old.index.names or name not in new.index.names:
            continue
        if name in patched.config.exclude or name in patched.config.drop_imported_names:
            continue
        nodes = new.definitions(name)
        if len(nodes) == 1 and is_replacement(nodes[0], new.package, helper.replacement):
            detail = "upstream defines the helper itself now: delete it"
            yield Finding("now upstream", name, "helper", detail, "must change")
        else:
            detail = "upstream binds the name of the helper now: rename the helper"
            yield Finding("new code", name, "helper", detail, "must change")
