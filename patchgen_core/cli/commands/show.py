"""``patchgen show``: upstream's text of a target, and what configs make of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.results import Outcome
from patchgen_core.build.selection import select_configs
from patchgen_core.cli.arguments import add_paths
from patchgen_core.cli.printing import add_printing, make_console, print_json
from patchgen_core.errors import PatchgenError, Problem, did_you_mean, quote_some
from patchgen_core.project.named_configs import find_named_project
from patchgen_core.project.project import Project
from patchgen_core.report.target_text import TargetLine, compare_target, target_text
from patchgen_core.syntax.source import SourceFile, parse_source, read_source
from patchgen_core.upstream.module import find_upstream

_MOST = 6


@dataclass(frozen=True)
class _TargetView:
    """What a config makes of a target; with problems, upstream's lines alone."""

    label: str
    module: str
    lines: list[TargetLine]
    problems: tuple[Problem, ...]


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Print upstream's text of a class, method or function with line numbers, and what configs make "
        "of it: '-' for lines that go, '+' for lines that come. A config with errors shows upstream's.",
    )
    parser.add_argument("target", help="Class, Class.method or function, as upstream names it")
    add_paths(parser, "all that have the target")
    add_printing(parser, "print the lines as JSON")
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    project = project or find_named_project(options.paths)
    outcomes = make_artifacts(select_configs(project, options.paths))
    views = [view for outcome in outcomes for view in _views(options.target, outcome, project)]
    if not views:
        raise _unknown(options.target, outcomes, project)
    chosen = _choose(options.target, views)
    if options.json:
        print_json([_view_data(view) for view in chosen])
        return 0
    from patchgen_core.report.terminal import print_problems

    console = make_console(options)
    for view in chosen:
        console.print(f"{view.label}: {options.target} of {view.module}", style="bold", soft_wrap=True)
        console.print(target_text(view.lines), end="", soft_wrap=True)
        print_problems(console, view.problems, "error")
    return 2 if any(view.problems for view in chosen) else 0


def _view_data(view: _TargetView) -> dict[str, object]:
    return {"config": view.label, "lines": [[line.number or None, line.mark, line.text] for line in view.lines]}


def _views(target: str, outcome: Outcome, project: Project) -> Iterator[_TargetView]:
    upstream = _upstream_source(outcome, project)
    if upstream is None or outcome.loaded is None or target not in dict(upstream.definitions):
        return
    artifact = outcome.artifact
    generated = parse_source(Path(), artifact.text) if artifact is not None else None
    base = parse_source(Path(), artifact.base) if artifact is not None else None
    lines = compare_target(target, upstream, generated, base)
    yield _TargetView(outcome.label, str(outcome.loaded.config.source_module), lines, outcome.problems)


def _upstream_source(outcome: Outcome, project: Project) -> SourceFile | None:
    """Upstream's module of a config, of one that does not generate as well; None where there is none."""
    if outcome.artifact is not None:
        return outcome.artifact.plan.source
    if outcome.loaded is None:
        return None
    config = outcome.loaded.config
    try:
        place = config.place_of("source_module")
        return read_source(find_upstream(config.source_module, project.upstream, place).path)
    except PatchgenError:
        return None


def _choose(target: str, views: Sequence[_TargetView]) -> list[_TargetView]:
    """Those that change the target, or one where none does; a PatchgenError where they are of several modules."""
    changing = [view for view in views if view.problems or any(line.mark != " " for line in view.lines)]
    chosen = changing or list(views[:1])
    if len({view.module for view in chosen}) > 1:
        labels = quote_some([view.label for view in chosen], _MOST)
        raise PatchgenError(f"several configs have a '{target}': {labels}", hint="Name one of them.")
    return chosen


def _unknown(target: str, outcomes: Sequence[Outcome], project: Project) -> PatchgenError:
    sources = [source for outcome in outcomes if (source := _upstream_source(outcome, project)) is not None]
    problems = [problem for outcome in outcomes if outcome.loaded is None for problem in outcome.problems]
    if not sources and problems:
        return PatchgenError.from_problems(problems)
    names = {name for source in sources for name, _ in source.definitions if "<locals>" not in name}
    hint = did_you_mean(target, names)
    return PatchgenError(f"no config's upstream module defines '{target}'", hint=hint)
