"""What stands above each patch, and upstream's line beside it."""

from __future__ import annotations

from lsprotocol import types

from patchgen_core.files import write_files
from patchgen_core.project.cache_folder import cache_folder, prepare_folder
from patchgen_lsp.analysis.declared import PATCHES, Declared, find_declared
from patchgen_lsp.analysis.navigation import count_users
from patchgen_lsp.analysis.upstream_view import view_upstream
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.commands import SHOW_DIFF
from patchgen_lsp.places import line_range, make_range
from patchgen_lsp.request import Request


def list_lenses(bench: Workbench, request: Request) -> list[types.CodeLens]:
    """Above each patch: how the drift check and the contract rules find it, and how many configs patch its target."""
    source = bench.sources.last_valid(request.path)
    if source is None:
        return []
    users = count_users(bench, source)
    analysis = bench.last_good(request.path)
    drifted = any(result.status == "drifted" for result in analysis.results)
    findings = [problem for result in analysis.results for problem in (*result.errors, *result.warnings)]
    lines = [p.location.line for p in findings if p.location is not None and p.location.file == str(request.path)]
    lenses = []
    for declared in _patches(find_declared(source)):
        count = sum(declared.first_line <= line <= declared.last_line for line in lines)
        state = "to be regenerated" if drifted else "generated file is current"
        parts = [f"{count} finding{'s' * (count > 1)}" if count else state]
        configs = users.get(declared.target, 1)
        parts += [f"{configs} configs"] if configs > 1 else []
        command = types.Command(" · ".join(parts), SHOW_DIFF, arguments=[request.path.as_uri(), declared.target])
        lenses.append(types.CodeLens(line_range(source.lines, declared.first_line, request.units), command))
    return lenses


def list_hints(bench: Workbench, request: Request) -> list[types.InlayHint]:
    """Behind each target: the line of upstream's file that it stands on."""
    source = bench.sources.last_valid(request.path)
    upstream = view_upstream(bench, source) if source is not None else None
    if source is None or upstream is None:
        return []
    hints = []
    for declared in find_declared(source):
        node = upstream.find(declared.target)
        if node is None:
            continue
        at = declared.argument
        line = (at.end_lineno or at.lineno) - 1
        column = source.end(at) - source.line_starts[line]
        place = make_range(source.lines, (line, column), (line, column), request.units).start
        label = f"{upstream.source.path.name}:{node.lineno}"
        hints.append(types.InlayHint(place, label, padding_left=True))
    return hints


def _patches(declared: list[Declared]) -> list[Declared]:
    """The first call about each target."""
    first: dict[str, Declared] = {}
    for each in declared:
        if each.call in PATCHES:
            first.setdefault(each.target, each)
    return list(first.values())


def write_diff(bench: Workbench, request: Request) -> list[str]:
    """The diffs of what a file's configs make against upstream, as files of the project's cache; their paths."""
    folder = cache_folder(bench.project)
    prepare_folder(folder)
    artifacts = bench.last_good(request.path).artifacts
    files = [(folder / "diffs" / artifact.diff_path.name, artifact.diff) for artifact in artifacts]
    write_files(files)
    return [str(path) for path, _ in files]
