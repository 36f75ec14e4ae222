"""The imports that a replacement's new text needs of its file."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from patchgen_core.codegen.imports import absolute_imports
from patchgen_core.syntax.nodes import FUNCTIONS
from patchgen_core.syntax.scope_analysis import find_scopes
from patchgen_core.syntax.scopes import Reference, Scope
from patchgen_core.syntax.source import SourceFile
from patchgen_core.upstream.module import UpstreamModule

_BUILTINS = frozenset(dir(builtins))


def missing_imports(text: str, file: SourceFile, new: SourceFile, upstream: UpstreamModule) -> tuple[str, ...]:
    """The imports that a file lacks for a definition that is to stand in it.

    Names that upstream's module imports or defines and the file does not bind. A name that the file uses already
    without binding it is one that only the generated module has, and stays so, unless Python asks for it where the
    definition stands: in decorators, defaults, base classes and class bodies.

    Args:
        text: the definition.
        file: the file.
        new, upstream: upstream's module, and its name.

    Returns:
        Statements, one for each name, in the order of the names.
    """
    early, late = needed_names(text)
    unbound = {name for reference in find_scopes(file.tree).references for name in _global_names(reference)}
    needed = (early | (late - unbound)) - file.index.names - _BUILTINS
    statements = (_import_of(name, new, upstream) for name in sorted(needed))
    return tuple(dict.fromkeys(filter(None, statements)))


def needed_names(text: str) -> tuple[set[str], set[str]]:
    """The global names of a definition: those that Python asks for where it stands, and the others.

    There are none in a text that is not valid Python, as one with conflicts may be.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return set(), set()
    annotations = {id(node) for node in _annotations(tree)}
    early: set[str] = set()
    late: set[str] = set()
    bound = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, *FUNCTIONS))}
    for reference in find_scopes(tree).references:
        is_early = id(reference.node) not in annotations and not _is_inside_function(reference.scope)
        (early if is_early else late).update(_global_names(reference))
    return early - bound, late - early - bound


def _global_names(reference: Reference) -> Iterator[str]:
    """The global names that a reference asks for; several in the string of an annotation."""
    tree: ast.AST = reference.node
    if isinstance(tree, ast.Constant):
        try:
            tree = ast.parse(str(tree.value), mode="eval")
        except (SyntaxError, ValueError):
            return
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    yield from (name for name in names if reference.scope.find(name) is None)


def _annotations(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(annotation, ast.AST):
                yield from ast.walk(annotation)


def _is_inside_function(scope: Scope | None) -> bool:
    while scope is not None:
        if scope.kind == "function":
            return True
        scope = scope.parent
    return False


def _import_of(name: str, new: SourceFile, upstream: UpstreamModule) -> str:
    """The statement that imports a name as upstream's module has it; empty when it has none of that name."""
    if name in new.index.definitions or name in new.index.assigned:
        return f"from {upstream.module} import {name}"
    for statement, alias in new.index.imports.get(name, ()):
        single = type(statement)(**{**dict(ast.iter_fields(statement)), "names": [alias]})
        return absolute_imports(ast.unparse(single), upstream.package, new.path, statement.lineno)
    return ""
