"""What stands above each patch, and upstream's line beside it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from lsprotocol import types

from patchgen_core.checks.standing import Standing
from patchgen_core.files import write_files
from patchgen_core.project.cache_folder import cache_folder, prepare_folder
from patchgen_core.report.words import quantity
from patchgen_core.syntax.source import SourceFile
from patchgen_lsp.analysis.declared import PATCHES, Declared, find_config_calls, find_declared
from patchgen_lsp.analysis.generated_view import view_generated
from patchgen_lsp.analysis.kept_findings import describe_standings
from patchgen_lsp.analysis.navigation import count_users
from patchgen_lsp.analysis.upstream_moves import UpstreamMove
from patchgen_lsp.analysis.upstream_view import UpstreamView, view_upstream
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.commands import RUN_CHECKS, SHOW_DIFF
from patchgen_lsp.places import line_range, make_range
from patchgen_lsp.request import Request
from patchgen_lsp.sides import Sides


def list_lenses(bench: Workbench, request: Request) -> list[types.CodeLens]:
    """Above each patch: its findings or what upstream did to its target, what checks came to when they ran, and how
    many configs patch its target; above each config the checks alone, which a click runs again."""
    source = bench.sources.last_valid(request.path)
    if source is None:
        return []
    page = _Page(bench, request, source)
    lenses = [page.config_lens(call) for call in find_config_calls(source)]
    return [*lenses, *(page.patch_lens(declared) for declared in _patches(find_declared(source)))]


@dataclass(frozen=True)
class _Page:
    """A config file of which lenses are made."""

    bench: Workbench
    request: Request
    source: SourceFile

    def config_lens(self, call: ast.Call) -> types.CodeLens:
        """The lens above a config."""
        title = " · ".join(self._standings) or "no result of a check is kept"
        command = types.Command(f"{title} · run the checks", RUN_CHECKS, arguments=[self._uri])
        return types.CodeLens(line_range(self.source.lines, call.lineno, self.request.units), command)

    def patch_lens(self, declared: Declared) -> types.CodeLens:
        """The lens above a patch."""
        configs = self._users.get(declared.target, 1)
        parts = [*self._states(declared), *self._standings, *([f"{configs} configs"] if configs > 1 else [])]
        command = types.Command(" · ".join(parts), SHOW_DIFF, arguments=[self._uri, declared.target])
        return types.CodeLens(line_range(self.source.lines, declared.first_line, self.request.units), command)

    def _states(self, declared: Declared) -> list[str]:
        """How many findings it has, or what is to be done; then what upstream did to its target."""
        count = sum(declared.first_line <= line <= declared.last_line for line in self._lines_of_findings)
        states = [quantity(count, "finding")] if count else ["to be regenerated"] if self._is_drifted else []
        if not self._is_upstreams(declared.target):
            return [*states, "not in upstream's module"]
        if not self._is_made:
            return [*states, "nothing is made of it now"]
        moves = [move.describe(declared.target) for move in self._moves if move is not None]
        return [*states, *(moves[:1] if moves or states else ["generated file is current"])]

    def _is_upstreams(self, target: str) -> bool:
        """Whether upstream has a target, as far as its module can be read."""
        upstream = self._upstream
        if upstream is None or upstream.find(target) is not None:
            return True
        name, _, method = target.partition(".")
        return bool(method) and upstream.find_method(name, method) is not None

    @cached_property
    def _upstream(self) -> UpstreamView | None:
        return view_upstream(self.bench, self.source)

    @property
    def _uri(self) -> str:
        return self.request.path.as_uri()

    @cached_property
    def _standings(self) -> list[str]:
        standings: Sequence[Standing] = self.request.more.get("standings", ())
        return describe_standings(standings, self.bench.sources.has_unsaved())

    @cached_property
    def _users(self) -> dict[str, int]:
        return count_users(self.bench, self.source)

    @cached_property
    def _moves(self) -> list[UpstreamMove | None]:
        return self.bench.last_good(self.request.path).moves

    @cached_property
    def _is_made(self) -> bool:
        """Whether anything has been made of the file since it was opened."""
        return bool(self.bench.last_good(self.request.path).artifacts)

    @cached_property
    def _is_drifted(self) -> bool:
        results = self.bench.last_good(self.request.path).results
        causes = [cause.kind for result in results if result.status == "drifted" for cause in result.causes]
        return any(kind != "upstream moved" for kind in causes)

    @cached_property
    def _lines_of_findings(self) -> list[int]:
        results = self.bench.last_good(self.request.path).results
        places = [problem.location for result in results for problem in (*result.errors, *result.warnings)]
        return [place.line for place in places if place is not None and place.file == str(self.request.path)]


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


def write_diff(bench: Workbench, request: Request) -> list[Sides]:
    """What a file's configs make against upstream, as files of the project's cache; ``more["target"]`` is the class,
    method or function to be shown first."""
    folder = cache_folder(bench.project)
    prepare_folder(folder)
    shown, files = [], []
    for view in view_generated(bench, request.path):
        artifact, place = view.artifact, folder / "diffs" / view.artifact.path.stem
        node = view.find(request.more["target"])
        line = view.source.first_line(node) - 1 if node is not None else None
        upstream = place / artifact.plan.source.path.name
        sides = Sides(place / artifact.diff_path.name, upstream, place / artifact.path.name, line)
        files += [(sides.diff, artifact.diff), (upstream, artifact.base), (sides.generated, artifact.text)]
        shown.append(sides)
    write_files(files)
    return shown
