"""A fork that imports from the module that it was copied from, as if it had copied that as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.authoring.fork.module_parts import ModuleParts, bound_by
from patchgen_core.codegen.added_code import below_imports
from patchgen_core.codegen.imports import absolute_imports
from patchgen_core.codegen.removal import removal_edits
from patchgen_core.errors import Location
from patchgen_core.syntax.edits import apply_edits
from patchgen_core.syntax.nodes import DEFINITIONS
from patchgen_core.syntax.scope_analysis import find_scopes
from patchgen_core.syntax.source import SourceFile, parse_source
from patchgen_core.upstream.module import UpstreamModule


def with_upstreams_own(fork: SourceFile, upstream: SourceFile, module: UpstreamModule) -> SourceFile:
    """The fork with upstream's definitions in the place of imports of them, and with all that these need."""
    parts = ModuleParts(fork)
    places = {**parts.guarded, **parts.imports}
    own = {n: attribute for n, (m, attribute) in places.items() if m == module.module and n == attribute}
    wanted = {name for name in own if name in upstream.index.definitions or name in upstream.index.assigned}
    if not wanted:
        return fork
    needed = _closure(wanted, upstream, fork)
    text = apply_edits(fork.text, removal_edits(fork, fork.index, (), sorted(wanted)))[0]
    statements = [
        s for s in upstream.tree.body if _names(s) & needed and not isinstance(s, (ast.Import, ast.ImportFrom))
    ]
    imports = "".join(f"{line}\n" for line in _imports(needed, upstream, fork))
    copied = "\n\n".join(_text(upstream, statement) for statement in statements)
    copied = absolute_imports(f"{imports}\n{copied}\n", module.package, Location(str(upstream.path)))
    rest = parse_source(fork.path, text)
    at = below_imports(rest)
    return parse_source(fork.path, f"{rest.text[:at]}\n{copied}\n{rest.text[at:]}")


def _names(statement: ast.stmt) -> set[str]:
    return {statement.name} if isinstance(statement, DEFINITIONS) else bound_by(statement)


def _closure(wanted: set[str], upstream: SourceFile, fork: SourceFile) -> set[str]:
    """The names of upstream's module that some of its names need, those aside that the fork has."""
    uses: dict[str, set[str]] = {}
    for statement in upstream.tree.body:
        references = find_scopes(ast.Module([statement], [])).references
        names = {name for r in references for name in r.names if r.is_global(name)}
        for name in _names(statement):
            uses.setdefault(name, set()).update(names)
    taken = fork.index.names - wanted
    needed, waiting = set(wanted), list(wanted)
    while waiting:
        new = (uses.get(waiting.pop(), set()) & upstream.index.names) - needed - taken
        needed |= new
        waiting += new
    return needed


def _imports(needed: set[str], upstream: SourceFile, fork: SourceFile) -> Iterator[str]:
    for name in sorted(needed):
        for statement, alias in upstream.index.imports.get(name, ())[:1]:
            if name not in fork.index.names:
                single = type(statement)(**{**dict(ast.iter_fields(statement)), "names": [alias]})
                yield ast.unparse(single)


def _text(source: SourceFile, statement: ast.stmt) -> str:
    """A statement with its decorators and the comments above it."""
    return "\n".join(source.lines[source.comment_line(statement) - 1 : source.last_line(statement)])
