"""Going from a target to upstream, from a replacement to what is generated of it and back, and to other configs."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path

from lsprotocol import types

from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.nodes import Definition
from patchgen_core.syntax.source import SourceFile
from patchgen_lsp.analysis.bound_names import at_name, find_bound, find_imported, imports_of
from patchgen_lsp.analysis.declared import (
    Declared,
    declared_around,
    declared_at,
    enclosing_target,
    find_declared,
    name_at,
)
from patchgen_lsp.analysis.generated_view import (
    GeneratedView,
    find_line,
    find_maker,
    is_generated_file,
    source_of_line,
    view_generated,
)
from patchgen_lsp.analysis.shared_names import Occurrence, SharedNames
from patchgen_lsp.analysis.upstream_view import UpstreamView, find_modules, view_upstream
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.places import line_range, make_range, place_of, uri_of
from patchgen_lsp.request import Request


def find_definition(bench: Workbench, request: Request) -> list[types.Location]:
    """Where what is at the cursor comes from.

    Of a target or a name of upstream's, upstream's line; of a replacement, the generated line; in a generated module,
    the line of the config, or upstream's line where no patch wrote it.
    """
    if is_generated_file(request.path):
        return _origin(bench, request)
    source = bench.sources.last_valid(request.path)
    upstream = view_upstream(bench, source) if source is not None else None
    if source is None or upstream is None:
        return []
    line, column = request.line + 1, request.column
    declared = declared_at(source, line, column)
    if declared is not None:
        return _upstream_target(upstream, declared.target, request.units)
    name = name_at(source, line, column)
    around = declared_around(source, line)
    if around is not None and around.definition is not None and name == around.definition.name:
        return list(_generated(bench, request, around.target))
    helper = dict(source.definitions).get(name)
    if helper is not None and helper.lineno == line:
        return list(_generated(bench, request, name))
    return (
        _shared_name(bench, source, name, request.units)
        or _upstream_name(bench, source, upstream, name, line, request.units)
        or find_bound(bench, source, name, request.units)
    )


def find_references(bench: Workbench, request: Request) -> list[types.Location]:
    """Every place of the project that names the target at the cursor, or means what configs share there."""
    source = bench.sources.last_valid(request.path)
    if source is None:
        return []
    line, column = request.line + 1, request.column
    declared = declared_at(source, line, column)
    if declared is not None:
        return list(_uses_of_target(bench, source, declared.target, request.units))
    name = name_at(source, line, column)
    if not name.isidentifier():
        return []
    names = SharedNames(bench.project, bench.sources)
    shared = names.resolve(source, name)
    if shared is None:  # upstream's
        return list(_uses_of_target(bench, source, name, request.units))
    return [_at_occurrence(place, request.units) for place in names.find_occurrences(shared)]


def _uses_of_target(bench: Workbench, source: SourceFile, target: str, units: str) -> Iterator[types.Location]:
    """Where configs of the same upstream module name a target, or a part of it."""
    modules = set(find_modules(bench, source))
    for other in _configs(bench, modules):
        if modules & set(find_modules(bench, other)):
            for each in find_declared(other):
                if each.target == target or ("." not in target and each.target.startswith(f"{target}.")):
                    yield _at_argument(other, each, units)


def _at_occurrence(place: Occurrence, units: str) -> types.Location:
    places = [place_of(place.source, offset) for offset in place.span]
    return types.Location(uri_of(place.source.path), make_range(place.source.lines, places[0], places[1], units))


def count_users(bench: Workbench, source: SourceFile) -> dict[str, int]:
    """For each target that a config names, how many configs of the project patch it in the same upstream module."""
    modules = set(find_modules(bench, source))
    counts: dict[str, int] = {}
    for other in _configs(bench, modules):
        if modules & set(find_modules(bench, other)):
            for target in {each.target for each in find_declared(other)}:
                counts[target] = counts.get(target, 0) + 1
    return counts


def _configs(bench: Workbench, modules: Collection[str]) -> Iterator[SourceFile]:
    """The configs whose text has the name of one of some modules, or that go on with the config of another file: of
    hundreds, few are worth parsing."""
    for path in sorted(bench.project.find_configs()):
        text = bench.sources.text(path)
        if any(module in text for module in modules) or "PatchConfig(" not in text:
            with contextlib.suppress(PatchgenError):
                yield bench.sources.get(path)


def _at_argument(source: SourceFile, declared: Declared, units: str) -> types.Location:
    node = declared.argument
    offsets = (source.start(node), source.end(node))
    lines = (node.lineno - 1, (node.end_lineno or node.lineno) - 1)
    places = [(line, offset - source.line_starts[line]) for line, offset in zip(lines, offsets)]
    return types.Location(uri_of(source.path), make_range(source.lines, places[0], places[1], units))


def _shared_name(bench: Workbench, source: SourceFile, name: str, units: str) -> list[types.Location]:
    """Where a name is defined that another file of the project shares with this one."""
    shared = SharedNames(bench.project, bench.sources).resolve(source, name) if name.isidentifier() else None
    if shared is None or shared.home == source.path:
        return []
    home = bench.sources.get(shared.home)
    node = dict(home.definitions).get(shared.name)
    if node is not None:
        return [_at_definition(home, node, units)]
    occurrences = SharedNames(bench.project, bench.sources).find_occurrences(shared)
    return [_at_occurrence(place, units) for place in occurrences if place.source is home][:1]


def _upstream_target(upstream: UpstreamView, target: str, units: str) -> list[types.Location]:
    node = upstream.find(target)
    if node is None and target.count(".") == 1:
        inherited = upstream.find_method(*target.split("."))
        node = inherited[1] if inherited is not None else None
    return [_at_definition(upstream.source, node, units)] if node is not None else []


def _upstream_name(
    bench: Workbench, source: SourceFile, upstream: UpstreamView, name: str, line: int, units: str
) -> list[types.Location]:
    """Upstream's line of a name that a replacement or an edit uses; ``self.method`` is one of the target's class."""
    if name.startswith("self.") and name.count(".") == 1:
        inside = enclosing_target(source, line)
        class_name, _, _ = inside.target.partition(".") if inside is not None else ("", "", "")
        return _member(bench, upstream, class_name, name.split(".")[1], units) if class_name else []
    imported = {alias.name for module, alias in imports_of(source, name) if module == upstream.module.module}
    if imported:
        node = upstream.find(imported.pop())
        return [at_name(upstream.source, node, units)] if node is not None else []
    if name.split(".")[0] in source.index.names:  # the config's own
        return []
    node = upstream.find(name) or upstream.find(name.split(".")[0])
    if node is not None:
        return [_at_definition(upstream.source, node, units)]
    index = upstream.source.index
    for statement, alias in index.imports.get(name, ()):
        home = find_imported(bench, statement, alias, upstream.module.package, units)
        if home:
            return home
    imports = [statement for statement, _ in index.imports.get(name, ())]
    lines = [statement.lineno for statement in [*imports, *index.assigned.get(name, ())]]
    return [_at_line(upstream.source, line, units) for line in lines[:1]]


def _member(
    bench: Workbench, upstream: UpstreamView, class_name: str, member: str, units: str
) -> list[types.Location]:
    """A method of an upstream class, or the line that first assigns an attribute of its instances; in the class, or in
    a base of any module."""
    method = upstream.find_method(class_name, member)
    if method is not None:
        return [_at_definition(upstream.source, method[1], units)]
    line = upstream.find_attribute(class_name, member)
    if line:
        return [_at_line(upstream.source, line, units)]
    bases = upstream.outside_bases(class_name)
    outside = bench.outer_bases.find(upstream.source, upstream.module, bases).get(member)
    if outside is None:
        return []
    return [types.Location(uri_of(outside.path), line_range(_lines(bench, outside.path), outside.line, units))]


def _at_definition(source: SourceFile, node: Definition, units: str) -> types.Location:
    return _at_line(source, node.lineno, units)


def _at_line(source: SourceFile, line: int, units: str) -> types.Location:
    return types.Location(uri_of(source.path), line_range(source.lines, line, units))


def _generated(bench: Workbench, request: Request, target: str) -> Iterator[types.Location]:
    for view in view_generated(bench, request.path):
        node = view.find(target)
        if node is not None:
            path, there = view.artifact.path, _shown(bench, view)
            line = find_line(view.source, node.lineno, there) if there is not None else node.lineno
            yield types.Location(uri_of(path), line_range(_lines(bench, path), max(line, 1), request.units))


def _shown(bench: Workbench, view: GeneratedView) -> SourceFile | None:
    """A generated file as it is; None where there is none, or none that is Python."""
    path = view.artifact.path
    return bench.sources.last_valid(path) if bench.sources.has(path) else None


def _lines(bench: Workbench, path: Path) -> list[str]:
    return bench.sources.text(path).split("\n")


def _origin(bench: Workbench, request: Request) -> list[types.Location]:
    view = find_maker(bench, request.path)
    if view is None:
        return []
    there = _shown(bench, view)
    line = min(request.line + 1, len((there or view.source).lines))
    line = find_line(there, line, view.source) if there is not None else line
    if not line:
        return []
    location = source_of_line(bench, view, line)
    if location is not None:
        path = Path(location.file)
        return [types.Location(uri_of(path), line_range(_lines(bench, path), location.line, request.units))]
    plan = view.artifact.plan
    owner = view.source.owner_at(line)
    node = dict(plan.source.definitions).get(owner)
    definition = view.find(owner)
    if node is None or definition is None:
        return []
    wanted = view.source.lines[line - 1].strip()
    first, last = plan.source.first_line(node), plan.source.last_line(node)
    same = [number for number in range(first, last + 1) if plan.source.lines[number - 1].strip() == wanted]
    at = min(same, key=lambda number: abs((number - first) - (line - definition.lineno)), default=node.lineno)
    return [types.Location(uri_of(plan.source.path), line_range(plan.source.lines, at, request.units))]
