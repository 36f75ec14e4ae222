"""``patchgen batches``: what parity runs the models of configs on, and why."""

from __future__ import annotations

import argparse

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.results import Artifact
from patchgen_core.build.selection import select_configs
from patchgen_core.checks.model_process.process import ModelProcess
from patchgen_core.checks.parity.check import describe_batches
from patchgen_core.cli.arguments import add_paths
from patchgen_core.cli.printing import add_formats, make_console, print_json
from patchgen_core.errors import PatchgenError
from patchgen_core.project.named_configs import find_named_project
from patchgen_core.project.project import Project

_FORMATS = ("text", "json")


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="List the batches that parity runs a config's models on with upstream's lines: what each passes, "
        "by name and shape, why it runs, and in which dtypes. Upstream's models are built and tried; patched ones are "
        "not run. A kernel that is interpreted runs fewer of them.",
    )
    add_paths(parser)
    add_formats(parser, _FORMATS)
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    from patchgen_core.report.batches import batches_data, print_batches

    project = project or find_named_project(options.paths)
    data = []
    process = ModelProcess(project, "cpu")
    try:
        for artifact in _make(project, options.paths):
            lines = describe_batches(process, artifact)
            data.append(batches_data(artifact.plan.label, lines))
            if not options.json:
                print_batches(make_console(options), artifact.plan.label, lines)
    finally:
        process.close()
    if options.json:
        print_json(data)
    return 0


def _make(project: Project, paths: list[str]) -> list[Artifact]:
    """What configs make; a PatchgenError where one makes nothing."""
    outcomes = make_artifacts(select_configs(project, paths))
    problems = [problem for outcome in outcomes for problem in outcome.problems]
    if problems:
        raise PatchgenError.from_problems(problems)
    return [outcome.artifact for outcome in outcomes if outcome.artifact is not None]
