"""Names that a config's code has from upstream's imports, and that the new release no longer imports."""

from __future__ import annotations

from collections.abc import Iterable

from patchgen_core.syntax.diffs import unified_diff
from patchgen_core.upgrade.results import Merged, NameChange, Rebase
from patchgen_core.upgrade.verdicts.module_view import ModuleView
from patchgen_core.upgrade.verdicts.replacements import ConfigReplacements

CALL = "add_import"


def import_again(name: str, patched: ConfigReplacements, old: ModuleView, new: ModuleView) -> Rebase | None:
    """The call by which a config imports what upstream no longer does; None where upstream has it still, never
    imported it, did so only where something is installed, or has moved it elsewhere in its own package."""
    sources = old.imports.get(name, frozenset())
    if len(sources) != 1 or name in new.index.names or name in patched.added or name in patched.targets:
        return None
    statements = [statement for statement, _ in old.index.imports[name]]
    if not all(statement in old.source.tree.body for statement in statements):
        return None
    (module, attribute) = next(iter(sources))
    if not _is_there(module, attribute, new):
        return None
    location = patched.config.location
    text = f"{patched.loaded.name}.{CALL}({_arguments(name, module, attribute)})"
    diff = unified_diff("", f"{text}\n", CALL, f"{CALL} (carried over)")
    return Rebase(location, "", Merged("", "same"), diff, name=NameChange(location, CALL, name, text))


def _is_there(module: str, attribute: str, new: ModuleView) -> bool:
    """Whether a module still has a name, as far as it is upstream's own."""
    if module.partition(".")[0] != new.name.partition(".")[0]:
        return True
    if new.library is None:
        return False
    return bool(new.library.find(module, attribute) if attribute else new.library.module(module))


def _arguments(name: str, module: str, attribute: str) -> str:
    if attribute:
        return f'"{module}", names=["{attribute if attribute == name else f"{attribute} as {name}"}"]'
    return f'"{module}"' if module.partition(".")[0] == name else f'"{module}", alias="{name}"'


def mended_names(rebases: Iterable[Rebase | None]) -> frozenset[str]:
    """The names that some changes of a config import."""
    changes = (rebase.name for rebase in rebases if rebase is not None)
    return frozenset(change.old for change in changes if change is not None and change.call == CALL)


def is_about(message: str, names: frozenset[str]) -> bool:
    """Whether a problem is that nothing defines one of some names."""
    return any(f"nothing defines '{name}'" in message for name in names)
