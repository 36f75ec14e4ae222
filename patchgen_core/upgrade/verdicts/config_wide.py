"""What a release does to what a config declares beside its patches: helpers, imports, and names that it takes out."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from patchgen_core.codegen.decorators import dotted_name
from patchgen_core.codegen.removal import excluded_methods
from patchgen_core.errors import Location
from patchgen_core.syntax.nodes import DEFINITIONS, Definition, methods
from patchgen_core.upgrade.results import Finding, Rebase
from patchgen_core.upgrade.verdicts.declared_names import rename, renamed_decorator
from patchgen_core.upgrade.verdicts.lost_imports import import_again
from patchgen_core.upgrade.verdicts.module_names import used_names
from patchgen_core.upgrade.verdicts.module_view import ModuleView, TargetName
from patchgen_core.upgrade.verdicts.replacements import ConfigReplacements, is_replacement
from patchgen_core.upgrade.verdicts.similar_code import moved

T = TypeVar("T")


def config_wide_findings(patched: ConfigReplacements, old: ModuleView, new: ModuleView) -> list[Finding]:
    """What concerns a config as a whole and no patch of it."""
    findings = [*_anchors(patched, old, new), *_excluded(patched, old, new), *_dropped(patched, old, new)]
    findings += [*_decorators(patched, old, new), *_imports(patched, old, new), *_helpers(patched, old, new)]
    findings += _lost_imports(patched, old, new)
    return list(dict.fromkeys(findings))


def _placed(entries: Iterable[T], otherwise: Location) -> list[tuple[T, Location]]:
    """What a config names, with each line that does."""
    return list(dict.fromkeys((entry, getattr(entry, "location", None) or otherwise) for entry in entries))


def _moved(name: str, old: ModuleView, new: ModuleView) -> tuple[str, str]:
    """What a class, method or function of the module is called now, and where it is, as the end of a sentence; both
    empty where nothing is like it, and the name where it is none of the module."""
    cls, _, method = name.partition(".")
    place = moved(TargetName(cls, method), old, new)
    if place is None:
        return "", ""
    return place[0] if _has(new, place[0]) else "", f"; it is {place[0]} now: {place[1]}"


def _anchors(patched: ConfigReplacements, old: ModuleView, new: ModuleView) -> Iterator[Finding]:
    config = patched.config
    for helper in patched.helpers.values():
        after, location = helper.helper.after, helper.helper.location or config.location
        if after is not None:
            yield from _anchor(after, f"the helper '{helper.name}'", "add_helper_after", location, old, new)
    for (after, _), location in _placed(config.positioned_blocks, config.location):
        yield from _anchor(after, "a block", "add_block_after", location, old, new)


def _anchor(
    after: str, what: str, call: str, location: Location, old: ModuleView, new: ModuleView
) -> Iterator[Finding]:
    if after in old.index.definitions and after not in new.index.definitions:
        name, where = _moved(after, old, new)
        rebase = rename(location, call, after, name) if name else None
        detail = f"{what} follows it{where}"
        yield Finding("moved" if where else "gone", after, "anchor", detail, "must change", rebase=rebase)


def _excluded(patched: ConfigReplacements, old: ModuleView, new: ModuleView) -> Iterator[Finding]:
    for name, location in _placed(patched.config.exclude, patched.config.location):
        if not _has(old, name) or _has(new, name):
            continue
        if name in new.index.imports:
            detail = "upstream imports it now: use drop_import_names"
            yield Finding("gone", name, "excluded", detail, "must change")
            continue
        other, where = _moved(name, old, new)
        rebase = rename(location, "exclude_from_output", name, other)
        need = "" if other else ": exclude_from_output need not name it"
        detail = f"upstream no longer defines it{need}{where}"
        yield Finding("moved" if other else "gone", name, "excluded", detail, "must change", rebase=rebase)


def _has(view: ModuleView, name: str) -> bool:
    """Whether a module defines what exclude_from_output names."""
    return name in view.index.definitions or name in view.index.assigned or bool(excluded_methods(view.index, name))


def _dropped(patched: ConfigReplacements, old: ModuleView, new: ModuleView) -> Iterator[Finding]:
    for name, location in _placed(patched.config.drop_imported_names, patched.config.location):
        if name not in old.index.names:
            continue
        if name not in new.index.names:
            verb = "imports" if name in old.index.imports else "defines"
            detail = f"upstream no longer {verb} it: drop_import_names need not name it"
            rebase = rename(location, "drop_import_names", name, "")
            yield Finding("gone", name, "dropped", detail, "must change", rebase=rebase)
        elif name in old.index.imports and name not in new.index.imports:
            detail = "upstream defines it itself now, so that drop_import_names does nothing"
            yield Finding("moved", name, "dropped", detail, "review")


def _decorators(patched: ConfigReplacements, old: ModuleView, new: ModuleView) -> Iterator[Finding]:
    for pair, location in _placed(patched.config.dropped_decorators, patched.config.location):
        target, name = pair
        before, after = (_decorated(view, target) for view in (old, new))
        if name not in _decorator_names(before) or name in _decorator_names(after):
            continue
        used_at: Location | None = getattr(pair, "used_at", None)
        if after:
            other = renamed_decorator(before, after, name)
            need = "upstream no longer has it: drop_decorators need not name it"
            detail = f"upstream renamed it to '{other}'" if other else need
            rebase: Rebase | None = rename(location, "drop_decorators", name, other, "" if used_at else target)
        else:
            other, where = _moved(target, old, new)
            detail = f"'{target.partition('.')[0]}' is gone{where}"
            call = "drop_decorators" if used_at is None else "edit_method" if "." in target else "edit_function"
            is_there = name in _decorator_names(_decorated(new, other))
            rebase = rename(used_at or location, call, target, other) if is_there else None
        about = f"@{name.removeprefix('@')} of {target}"
        yield Finding("moved" if other else "gone", about, "dropped", detail, "must change", rebase=rebase)


def _decorated(view: ModuleView, target: str) -> Sequence[Definition]:
    """The class, method or function that decorators are taken off."""
    cls, _, method = target.partition(".")
    nodes = view.definitions(cls)
    return [function for node in nodes for function in methods(node, method)] if method else nodes


def _decorator_names(nodes: Sequence[Definition]) -> set[str]:
    """The decorators of definitions, by every name that drop_decorators takes for them."""
    names = [dotted_name(decorator) for node in nodes for decorator in node.decorator_list]
    return {spelling for full in names for spelling in (full, f"@{full}", full.rpartition(".")[2])}


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


def _lost_imports(patched: ConfigReplacements, old: ModuleView, new: ModuleView) -> Iterator[Finding]:
    """What the config's code has from upstream's imports, and has to import itself now."""
    nodes = [entry.node for entry in patched.patches if entry.node is not None]
    nodes += [node for helper in patched.helpers.values() for node in _definitions(helper.replacement.text)]
    for name in dict.fromkeys(name for node in nodes for name in used_names(node)):
        rebase = import_again(name, patched, old, new)
        if rebase is not None:
            detail = f"upstream no longer imports '{name}', which the config's code uses"
            module, attribute = next(iter(old.imports[name]))
            about = f"{module}.{attribute}" if attribute else module
            yield Finding("gone", about, "import", detail, "must change", rebase=rebase)


def _definitions(text: str) -> list[Definition]:
    return [node for node in ast.parse(text).body if isinstance(node, DEFINITIONS)]


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
