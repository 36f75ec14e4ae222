"""``patchgen slim``: its arguments, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from patchgen_core.authoring.slim.slim import Slimmed, slim
from patchgen_core.build.selection import select_configs
from patchgen_core.cli.arguments import add_config_name, add_paths
from patchgen_core.cli.printing import add_printing, make_console, print_json
from patchgen_core.errors import display_path
from patchgen_core.project.named_configs import find_named_project
from patchgen_core.project.project import Project
from patchgen_core.report.words import quantity


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Write replacements that repeat upstream's text as edits, which say only what they change, where "
        "the generated code stays the same. Then the files are generated anew.",
        epilog="Exit codes: 0 done, or with --check nothing to do, 1 with --check something to do, 2 usage or "
        "configuration error.",
    )
    add_paths(parser)
    add_config_name(parser)
    parser.add_argument("--check", action="store_true", help="say what would be done, and write nothing")
    parser.add_argument("-v", "--verbose", action="store_true", help="also say why the others stay replacements")
    add_printing(parser, "print the result as JSON")
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    project = project or find_named_project(options.paths)
    results = slim(select_configs(project, options.paths, options.config_name), options.check)
    code = int(options.check and any(result.patches for result in results))
    if options.json:
        print_json(_slimmed_data(results, code))
    else:
        _print_slimmed(make_console(options), results, options.check, options.verbose)
    return code


def _print_slimmed(console: Console, results: Sequence[Slimmed], is_dry: bool, verbose: bool) -> None:
    for result in results:
        for path in () if is_dry else result.written:
            console.print(Text.assemble(("wrote    ", "green"), display_path(path)), soft_wrap=True)
        for patch in result.patches:
            more = f" and {quantity(len(patch.targets) - 1, 'target')} more" if len(patch.targets) > 1 else ""
            line = f"{patch.location}: {patch.targets[0]}{more}: {patch.before} lines become {patch.after}"
            console.print(Text(line, "bold" if is_dry else "dim"), soft_wrap=True)
        for reason in result.left if verbose else ():
            console.print(Text(f"{display_path(result.path)}: {reason}", "dim"), soft_wrap=True)
    patches = [patch for result in results for patch in result.patches]
    lines = sum(patch.before - patch.after for patch in patches)
    verb = "would become" if is_dry else "became"
    done = f"{quantity(len(patches), 'replacement')} {verb} edits, {quantity(lines, 'line')} less."
    text = done if patches else "No replacement would be shorter as edits."
    left = sum(len(result.left) for result in results)
    why = "the reasons are above" if verbose else "-v says why"
    more = f" {quantity(left, 'other')} cannot be written as edits: {why}." if left else ""
    console.print(Text(f"{text}{more}", "green"), soft_wrap=True)


def _slimmed_data(results: Sequence[Slimmed], code: int) -> dict[str, Any]:
    from patchgen_core.report.data import SCHEMA

    return {
        "schema": SCHEMA,
        "exit_code": code,
        "configs": [
            {
                "path": display_path(result.path),
                "patches": [
                    {
                        "targets": list(patch.targets),
                        "line": patch.location.line,
                        "before": patch.before,
                        "after": patch.after,
                    }
                    for patch in result.patches
                ],
                "left": list(result.left),
                "written": [display_path(path) for path in result.written],
            }
            for result in results
        ],
    }
