"""``patchgen init``: its arguments, and what it prints."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from patchgen_core.authoring.project_table import ProjectTable, make_table
from patchgen_core.cli.printing import add_printing, print_json
from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.project.project import Project
from patchgen_core.report.data import SCHEMA


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Tell a repository where its patch configs lie: add a table [tool.patchgen] to the end of its "
        "pyproject.toml, which is made where there is none. What the file has stays as it is.",
        epilog="Exit codes: 0 the table was written, 2 there is one, or it cannot be told where configs lie.",
    )
    add = parser.add_argument
    add("--search-root", type=Path, metavar="DIR", help="folder below which the configs lie, or will")
    add(
        "--package-prefix",
        default="",
        metavar="PACKAGE",
        help="the package that this folder is (default: by its path)",
    )
    add("--dry-run", action="store_true", help="show what would be written, and write nothing")
    add_printing(parser, "print the result as JSON")
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    if project is not None:
        raise PatchgenError("this command has a project of its own, which no [tool.patchgen] table changes")
    table = make_table(Path.cwd(), options.search_root, options.package_prefix)
    if not options.dry_run:
        table.write()
    if options.json:
        print_json(_table_data(table))
        return 0
    print(f"{'would be' if options.dry_run else 'wrote   '} {display_path(table.path)}")
    print(table.table, end="")
    if not options.dry_run:
        print("Run 'patchgen new <model type>' for a first config, such as 'patchgen new qwen3'.")
    return 0


def _table_data(table: ProjectTable) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "exit_code": 0,
        "file": display_path(table.path),
        "search_root": display_path(table.project.search_root),
        "package_prefix": table.project.package_prefix,
    }
