"""Modules that hand the DSL on under a name of the project's own, recognised by reading them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from patchgen_core.config.input_recording import OWN
from patchgen_core.syntax.source import SourceCache

_DSL_NAMES = frozenset(("PatchConfig", "Edits", "create_patch_from_external", "*"))
_MODULE_NAMES = ("patchgen", "patch_spec")


def may_forward(module: str, names: Iterable[str]) -> bool:
    """Whether an import of these names from a module may be one of the DSL; cheap, before anything is read."""
    return module.rpartition(".")[2] in _MODULE_NAMES or not _DSL_NAMES.isdisjoint(names)


def is_forwarder(module: str, find_file: Callable[[str], Path | None], sources: SourceCache) -> bool:
    """Whether a module imports the DSL, itself or by way of others that do."""
    seen: set[str] = set()
    open_modules = [module]
    while open_modules:
        name = open_modules.pop()
        path = find_file(name) if name not in seen else None
        seen.add(name)
        if path is None:
            continue
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for imported, names in _imports(sources.get(path).tree, package):
            if imported.partition(".")[0] in OWN:
                return True
            if may_forward(imported, names):
                open_modules.append(imported)
            open_modules += [f"{imported}.{name}" for name in names if name in _MODULE_NAMES]
    return False


def _imports(tree: ast.Module, package: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The modules that a file imports, at any depth, each with the names that it takes from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = parts[: len(parts) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module, tuple(alias.name for alias in node.names)
