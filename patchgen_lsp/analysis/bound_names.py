"""Where the names come from that a config itself binds, or has imported in the generated module."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lsprotocol import types

from patchgen_core.authoring.edits.importers import absolute_module
from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.index import ImportStatement
from patchgen_core.syntax.nodes import DEFINITIONS, Definition, called_name
from patchgen_core.syntax.source import SourceFile
from patchgen_core.upstream.module import installed_file
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.places import make_range, place_of, uri_of

_DEPTH = 4
"""How many modules a name may be handed on through."""


def find_bound(bench: Workbench, source: SourceFile, name: str, units: str) -> list[types.Location]:
    """The place in a config that binds a name; the definition of one that it imports, or that ``add_import`` does."""
    node = dict(source.definitions).get(name)
    if node is not None:
        return [at_name(source, node, units)]
    for statement in source.index.assigned.get(name, ()):
        for target in ast.walk(statement):
            if isinstance(target, ast.Name) and target.id == name and isinstance(target.ctx, ast.Store):
                return [_at(source, source.start(target), source.end(target), units)]
    package = bench.project.module_name(source.path).rpartition(".")[0]
    for imported, alias in source.index.imports.get(name, ()):
        return find_imported(bench, imported, alias, package, units)
    return _find_added(bench, source, name, units) if name else []


def find_imported(
    bench: Workbench, statement: ImportStatement, alias: ast.alias, package: str, units: str
) -> list[types.Location]:
    """The definition of what a statement imports, whose relative module begins at a package."""
    if not isinstance(statement, ast.ImportFrom):
        return []
    return _find_in_module(bench, absolute_module(statement, package), alias.name, units, _DEPTH)


def imports_of(source: SourceFile, name: str) -> Iterator[tuple[str, ast.alias]]:
    """The absolute modules that a file imports a name from, with what it is called there."""
    for statement, alias in source.index.imports.get(name, ()):
        if isinstance(statement, ast.ImportFrom) and not statement.level:
            yield statement.module or "", alias


def at_name(source: SourceFile, node: Definition, units: str) -> types.Location:
    """The name of a definition, which is where other tools for Python go to."""
    line = source.line_starts[node.lineno - 1]
    start = source.text.index(node.name, source.text.index(" ", max(line, source.start(node))))
    return _at(source, start, start + len(node.name), units)


def _at(source: SourceFile, start: int, end: int, units: str) -> types.Location:
    places = place_of(source, start), place_of(source, end)
    return types.Location(uri_of(source.path), make_range(source.lines, *places, units))


def _find_added(bench: Workbench, source: SourceFile, name: str, units: str) -> list[types.Location]:
    for module, added, bound in _added_names(source):
        if bound == name:
            return _find_in_module(bench, module, added, units, _DEPTH)
    return []


def _added_names(source: SourceFile) -> Iterator[tuple[str, str, str]]:
    """What ``add_import`` imports: the module, the name there and here."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and called_name(node) == "add_import":
            arguments = {keyword.arg: keyword.value for keyword in node.keywords}
            module = node.args[0] if node.args else arguments.get("module")
            names = arguments.get("names", node.args[1] if len(node.args) > 1 else None)
            if isinstance(module, ast.Constant) and isinstance(names, (ast.List, ast.Tuple)):
                for entry in names.elts:
                    if isinstance(entry, ast.Constant) and isinstance(entry.value, str):
                        there, _, here = entry.value.partition(" as ")
                        yield str(module.value), there, here or there


def _find_in_module(bench: Workbench, module: str, name: str, units: str, depth: int) -> list[types.Location]:
    """The definition of a name in a module, or in the one that it is imported from there."""
    path = bench.project.module_path(module) or installed_file(module)
    if path is None:
        return []
    try:
        source = bench.sources.get(path)
    except PatchgenError:
        return []
    node = next((n for n in source.index.definitions.get(name, ()) if isinstance(n, DEFINITIONS)), None)
    if node is not None:
        return [at_name(source, node, units)]
    for statement, alias in source.index.imports.get(name, ()):
        if isinstance(statement, ast.ImportFrom) and depth:
            home = absolute_module(statement, module if path.name == "__init__.py" else module.rpartition(".")[0])
            return _find_in_module(bench, home, alias.name, units, depth - 1)
    return []
