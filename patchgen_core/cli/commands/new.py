"""``patchgen new``: its arguments, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from patchgen_core.authoring.init.project_table import ProjectTable, make_table
from patchgen_core.authoring.new.create import NewResult, create_new
from patchgen_core.cli.printing import add_printing, make_console, print_json
from patchgen_core.errors import display_path
from patchgen_core.project.project import Project
from patchgen_core.project.table import has_table, load_project
from patchgen_core.report.data import SCHEMA, problem_data
from patchgen_core.report.terminal import print_problems


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of ``patchgen new``."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Write the first patch config of a model type, from transformers' source: op slots "
        "for norms, gated MLPs, rotary embedding, experts and losses where they fit, as edits that leave the rest to "
        "upstream; its folder, its registration and what it generates.",
        epilog="Exit codes: 0 everything was written, 1 the contract rules find an error in it, "
        "2 usage or configuration error, or a model of which nothing can be patched.",
    )
    add = parser.add_argument
    add("model_type", help="model type of transformers, such as granite")
    add("--dry-run", action="store_true", help="show what would be written, and write nothing")
    add("--force", action="store_true", help="overwrite existing files")
    add("--no-generate", action="store_true", help="write the config and what goes beside it alone")
    add_printing(parser, "print the result as JSON")
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    table = make_table(Path.cwd()) if project is None and not has_table(Path.cwd()) else None
    project = project or (table.project if table is not None else load_project())
    is_generated = not options.no_generate
    result = create_new(
        project, options.model_type, force=options.force, generate=is_generated, dry_run=options.dry_run
    )
    if table is not None:
        result = _with_table(result, table, options.dry_run)
    if options.json:
        print_json(new_data(result))
    else:
        print_new(make_console(options), result, options.dry_run, project.module_name(result.config))
    return exit_code(result)


def _with_table(result: NewResult, table: ProjectTable, dry_run: bool) -> NewResult:
    """The result with the project's file, which is written now that nothing stands in the way."""
    if not dry_run:
        table.write()
    written = result.written if dry_run else (table.path, *result.written)
    return replace(result, files=((table.path, table.table), *result.files), written=written)


def print_new(console: Console, result: NewResult, dry_run: bool, module: str) -> None:
    """Print what was written, what it patches, what is left and why, and how to go on."""
    written = set(result.written)
    for path, text in result.files:
        word, style = ("would be", "yellow") if dry_run else ("wrote", "green") if path in written else ("same", "dim")
        console.print(Text.assemble((f"{word:<8} ", style), display_path(path)), soft_wrap=True)
        if dry_run and not path.match("generated/*"):
            console.print(Text(text, "dim"), soft_wrap=True)
    for line in _summary(result):
        console.print(line, soft_wrap=True)
    print_problems(console, result.errors, "error")
    print_problems(console, result.warnings, "warning")
    count, left = len(result.patches), len(result.left)
    end = Text(f"{count} patch{'es' * (count != 1)} of {result.upstream}; {left} left as upstream has them.")
    end.stylize("green")
    if not dry_run:
        end.append(f"\nRun 'pytest --patchgen {display_path(result.config)}' for the gate over it.", "cyan")
        if not any(path.match("generated/*") for path, _ in result.files):
            end.append(f"\nRun 'patchgen {module} --diff' to generate it.", "cyan")
    console.print(end, soft_wrap=True)


def _summary(result: NewResult) -> Iterator[Text]:
    for patch in result.patches:
        yield Text.assemble(("patched  ", "green"), f"{patch.target}  ", (patch.description, "dim"))
    for entry in result.left:
        yield Text.assemble(("left     ", "yellow"), f"{entry.name}  ", (entry.reason, "dim"))


def new_data(result: NewResult) -> dict[str, Any]:
    """The result as JSON data."""
    return {
        "schema": SCHEMA,
        "exit_code": exit_code(result),
        "model_type": result.model_type,
        "upstream": result.upstream,
        "config": display_path(result.config),
        "files": [display_path(path) for path, _ in result.files],
        "written": [display_path(path) for path in result.written],
        "patches": [{"target": p.target, "description": p.description} for p in result.patches],
        "left": [{"name": entry.name, "kind": entry.kind, "reason": entry.reason} for entry in result.left],
        "errors": problem_data(result.errors),
        "warnings": problem_data(result.warnings),
        "diff": result.diff,
    }


def exit_code(result: NewResult) -> int:
    """0, or 1 when a contract rule finds an error."""
    return int(bool(result.errors))
