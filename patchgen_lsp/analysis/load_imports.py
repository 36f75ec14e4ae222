"""The imports that a copied class needs as soon as its config is loaded."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence

from lsprotocol import types

from patchgen_core.syntax.forms import resolved
from patchgen_core.syntax.index import index_module
from patchgen_core.syntax.nodes import FUNCTIONS, last_name
from patchgen_core.syntax.source import SourceFile
from patchgen_lsp.analysis.upstream_view import UpstreamView
from patchgen_lsp.places import make_range
from patchgen_lsp.request import Request


def import_what_loads(
    lines: Sequence[str], source: SourceFile, upstream: UpstreamView, node: ast.ClassDef, request: Request
) -> list[types.TextEdit]:
    """The edit that imports what the statement of a class evaluates, below the imports of a config: bases, decorators
    and defaults. Annotations are not evaluated there, and what functions use is upstream's in the generated module.
    """
    outside = ast.Module([statement for statement in source.tree.body if not _is_guard(statement)], [])
    names = _evaluated_names(node) - index_module(outside).names - set(dir(builtins)) - {node.name}
    statements = sorted(filter(None, (_import_of(upstream, name) for name in names)))
    if not statements:
        return []
    imports = [s for s in outside.body if isinstance(s, (ast.Import, ast.ImportFrom))]
    line = (imports[-1].end_lineno or 0) if imports else 0
    place = make_range(lines, (line, 0), (line, 0), request.units)
    return [types.TextEdit(place, "".join(f"{statement}\n" for statement in statements))]


def _is_guard(statement: ast.stmt) -> bool:
    """Whether a statement is ``if TYPE_CHECKING:``, whose imports are for tools."""
    return isinstance(statement, ast.If) and last_name(statement.test) == "TYPE_CHECKING"


def _evaluated_names(node: ast.ClassDef) -> set[str]:
    bound = index_module(ast.Module(node.body, [])).names
    return {each.id for part in _evaluated(node) for each in ast.walk(part) if isinstance(each, ast.Name)} - bound


def _evaluated(node: ast.ClassDef) -> Iterator[ast.AST]:
    """What the statement of a class evaluates."""
    yield from (*node.bases, *node.keywords, *node.decorator_list)
    for statement in node.body:
        if isinstance(statement, FUNCTIONS):
            defaults = (*statement.args.defaults, *statement.args.kw_defaults)
            yield from (part for part in (*statement.decorator_list, *defaults) if part is not None)
        elif isinstance(statement, ast.ClassDef):
            yield from _evaluated(statement)
        elif isinstance(statement, ast.AnnAssign):
            yield from [statement.value] if statement.value is not None else []
        else:
            yield statement


def _import_of(upstream: UpstreamView, name: str) -> str:
    """The statement that imports a name from where upstream has it; empty for a name that upstream lacks."""
    for statement, alias in upstream.source.index.imports.get(name, ()):
        renamed = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
        if isinstance(statement, ast.Import):
            return f"import {renamed}"
        return f"from {resolved(statement, upstream.module.package)} import {renamed}"
    return f"from {upstream.module.module} import {name}" if name in upstream.source.index.names else ""
