"""The other side of :class:`~patchgen_lsp.analyst.Analyst`: what a process does with a request."""

from __future__ import annotations

import functools
import gc
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from patchgen_core.errors import PatchgenError
from patchgen_core.project.cache_folder import cache_folder
from patchgen_core.project.project import CONFIG_SUFFIX, Project
from patchgen_lsp.analysis.diagnostics import Page, diagnose, diagnose_problems
from patchgen_lsp.analysis.generated_view import is_generated_file
from patchgen_lsp.analysis.hand_edited import diagnose_hand_edits
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.request import REST, TIDY, Request

_ROOM = "patchgen_lsp.analysis"
_FEATURES = {
    "actions": f"{_ROOM}.actions:list_actions",
    "regenerate": f"{_ROOM}.regenerating:regenerate",
    "prepare rename": f"{_ROOM}.renaming:prepare_rename",
    "rename": f"{_ROOM}.renaming:rename",
    "hover": f"{_ROOM}.hover:hover",
    "definition": f"{_ROOM}.navigation:find_definition",
    "references": f"{_ROOM}.navigation:find_references",
    "completion": f"{_ROOM}.completion:complete",
    "lenses": f"{_ROOM}.lenses:list_lenses",
    "diff": f"{_ROOM}.lenses:write_diff",
    "hints": f"{_ROOM}.lenses:list_hints",
}
"""Where the question of each kind is answered: ``module:function``, of a workbench and a request."""
_GARBAGE, _MOST_GARBAGE = 30_000, 120_000
"""New objects after which cycles are looked for among them, where nobody waits and where somebody does. Among all
objects, which takes longer, they are looked for where nobody does anything."""


class _Desk:
    """The workbenches of all projects that files are open of, while their settings stay the same."""

    def __init__(self) -> None:
        self._benches: dict[Path, tuple[Project, Workbench]] = {}

    def bench(self, path: Path) -> Workbench:
        """The workbench of a file's project; a PatchgenError where there is none, or its settings are wrong."""
        project = Session(None, Settings()).project(path)
        known = self._benches.get(project.base)
        if known is None or known[0] != project:
            known = self._benches[project.base] = (project, Workbench(project))
        return known[1]

    def forget_failures(self) -> None:
        """Have what failed tried again."""
        for _, bench in self._benches.values():
            bench.forget_failures()


@functools.lru_cache(maxsize=1)
def _desk() -> _Desk:
    gc.disable()
    return _Desk()


def answer(request: Request) -> tuple[Any, bool]:
    """The answer to a request, and whether this process has grown so much that another should take its place.

    An import for real brings torch. A PatchgenError where the file has no project, or something is wrong with that.
    """
    return _answer(_desk(), request), "torch" in sys.modules


def _answer(desk: _Desk, request: Request) -> Any:
    if request.kind == REST:
        gc.collect()
        return None
    if gc.get_count()[0] > (_GARBAGE if request.kind == TIDY else _MOST_GARBAGE):
        gc.collect(1)
    if request.kind == TIDY:
        return None
    if request.kind == "check":
        return _check(desk, request)
    if request.kind == "refresh":
        desk.forget_failures()
        return None
    bench = desk.bench(request.path)
    bench.show(request.texts)
    if request.kind == "base":
        bench.sources.refuse_unsaved(request.path)
        return str(bench.project.base)
    module, _, name = _FEATURES[request.kind].partition(":")
    feature: Callable[[Workbench, Request], Any] = getattr(importlib.import_module(module), name)
    return feature(bench, request)


def _check(desk: _Desk, request: Request) -> Any:
    """The diagnostics of a config file, or of the settings that keep it from being looked at."""
    path = request.path
    try:
        bench = desk.bench(path)
    except PatchgenError as error:
        has_place = error.problems[0].location is not None
        is_config = path.name.endswith(CONFIG_SUFFIX)
        text = request.texts.get(path, "")
        problems = error.problems if has_place or is_config else ()
        return diagnose_problems(path, problems, text, request.units)
    if not path.name.endswith(CONFIG_SUFFIX):
        bench.show(request.texts)
        return diagnose_hand_edits(bench, path, request.units) if is_generated_file(path) else []
    bench.show(request.texts)
    analysis = bench.judge(path)
    page = Page(path, bench.sources.text(path).split("\n"), request.units, cache_folder(bench.project))
    standings = request.more.get("standings", ())
    return diagnose(page, analysis, standings, bench.sources.has_unsaved())
