"""``patchgen absorb``: its arguments, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from patchgen_core.authoring.absorb.absorb import Absorbed, absorb
from patchgen_core.build.selection import select_configs
from patchgen_core.cli.arguments import add_config_name, add_paths
from patchgen_core.cli.printing import add_printing, make_console, print_json
from patchgen_core.errors import display_path
from patchgen_core.project.named_configs import find_named_project
from patchgen_core.project.project import Project
from patchgen_core.report.words import quantity
from patchgen_core.syntax.forms import listed


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Turn hand edits of generated files into patches. An edit inside a patch's code changes that "
        "patch; any other becomes a patch of its own, at the end of the config. Then the files are regenerated.",
        epilog="Exit codes: 0 the configs make what was edited, 1 something is left, and the generated file keeps all "
        "edits, 2 usage or configuration error.",
    )
    add_paths(parser)
    add_config_name(parser)
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    add_printing(parser, "print the result as JSON")
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    project = project or find_named_project(options.paths)
    results = absorb(select_configs(project, options.paths, options.config_name), options.dry_run)
    if options.json:
        print_json(_absorbed_data(results))
    else:
        _print_absorbed(make_console(options), results, options.dry_run)
    return _exit_code(results)


def _exit_code(results: Sequence[Absorbed]) -> int:
    return int(any(result.left for result in results))


def _print_absorbed(console: Console, results: Sequence[Absorbed], is_dry: bool) -> None:
    from patchgen_core.report.terminal import print_problems

    for result in results:
        word = ("would write  ", "bold") if is_dry else ("wrote    ", "green")
        for path in result.written:
            console.print(Text.assemble(word, display_path(path)), soft_wrap=True)
        for change in result.changes:
            console.print(Text(f"         {change}", "dim"), soft_wrap=True)
        print_problems(console, result.left, "warning")
        if result.others:
            remark = "shared what was edited: generate as well, or give a patch of its own"
            shared = f"         {listed(result.others)} {remark}"
            console.print(Text(shared, "yellow"), soft_wrap=True)
    absorbed = quantity(sum(len(result.changes) for result in results), "edit")
    left = sum(len(result.left) for result in results)
    if not results:
        console.print(Text("No generated file was edited by hand.", "green"))
    elif left:
        console.print(Text(f"{absorbed} absorbed, {left} left; the generated file keeps all of them.", "yellow"))
    else:
        console.print(Text(f"{absorbed} absorbed.", "green"))


def _absorbed_data(results: Sequence[Absorbed]) -> dict[str, Any]:
    from patchgen_core.report.data import SCHEMA, problem_data

    return {
        "schema": SCHEMA,
        "exit_code": _exit_code(results),
        "configs": [
            {
                "config": result.config,
                "path": display_path(result.path),
                "generated": display_path(result.generated),
                "changes": list(result.changes),
                "left": problem_data(result.left),
                "others": list(result.others),
                "written": [display_path(path) for path in result.written],
            }
            for result in results
        ],
    }
