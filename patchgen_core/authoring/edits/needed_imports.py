"""The imports that a replacement's new text needs of its file."""

from __future__ import annotations

import ast
import builtins

from patchgen_core.codegen.imports import absolute_imports
from patchgen_core.errors import Location
from patchgen_core.syntax.scope_analysis import find_scopes
from patchgen_core.syntax.scopes import Moment
from patchgen_core.syntax.source import SourceFile
from patchgen_core.upstream.module import UpstreamModule

_BUILTINS = frozenset(dir(builtins))


def missing_imports(text: str, file: SourceFile, new: SourceFile, upstream: UpstreamModule) -> tuple[str, ...]:
    """The imports that a file lacks for a definition that is to stand in it, a statement for each name.

    Names that upstream's module imports or defines and the file does not bind. A name that the file uses already
    without binding it is one that only the generated module has, and stays so, unless Python asks for it where the
    definition stands: in decorators, defaults, base classes and class bodies.
    """
    early, late = needed_names(text)
    unbound = {name for names in _global_names(file.tree).values() for name in names}
    needed = (early | (late - unbound)) - file.index.names - _BUILTINS
    statements = (import_of_upstream(name, new, upstream) for name in sorted(needed))
    return tuple(dict.fromkeys(filter(None, statements)))


def needed_names(text: str) -> tuple[set[str], set[str]]:
    """The global names of a definition: those that Python asks for where it stands, and the others.

    There are none in a text that is not valid Python, as one with conflicts may be. Annotations count as asked for
    later, whether the file says so or not: a config is loaded without the names that only the generated module has.
    """
    try:
        tree = ast.parse(f"from __future__ import annotations\n{text}")
    except SyntaxError:
        return set(), set()
    names = _global_names(tree)
    own = {getattr(node, "name", "") for node in tree.body}
    early = names["import"] - own
    return early, (names["call"] | names["annotation"]) - early - own


def _global_names(tree: ast.Module) -> dict[Moment, set[str]]:
    """The global names that a text refers to, by when Python asks for them."""
    names: dict[Moment, set[str]] = {"import": set(), "call": set(), "annotation": set()}
    for reference in find_scopes(tree).references:
        names[reference.moment].update(name for name in reference.names if reference.is_global(name))
    return names


def import_of_upstream(name: str, new: SourceFile, upstream: UpstreamModule) -> str:
    """The statement that imports a name as upstream's module has it; empty when it has none of that name."""
    if name in new.index.definitions or name in new.index.assigned:
        return f"from {upstream.module} import {name}"
    for statement, alias in new.index.imports.get(name, ()):
        single = type(statement)(**{**dict(ast.iter_fields(statement)), "names": [alias]})
        return absolute_imports(ast.unparse(single), upstream.package, Location(str(new.path), statement.lineno))
    return ""
