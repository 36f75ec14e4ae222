"""``patchgen init``: its arguments, and what it prints."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from patchgen_core.authoring.init.additions import Addition
from patchgen_core.authoring.init.parts import PARTS, Initialized, make_parts
from patchgen_core.cli.printing import add_printing, print_json
from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.project.project import Project
from patchgen_core.report.data import SCHEMA


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Set a repository up for patch configs: its table [tool.patchgen], and where it uses them, the "
        "exceptions of ruff for configs, a hook of pre-commit and a workflow that runs the gate. It leaves what its "
        "files already have.",
        epilog="Exit codes: 0 everything is there now, 1 something is left for you to write, 2 the folder of "
        "the configs is unknown, or a file is broken.",
    )
    add = parser.add_argument
    add("--search-root", type=Path, metavar="DIR", help="folder below which the configs lie, or will")
    add(
        "--package-prefix",
        default="",
        metavar="PACKAGE",
        help="the package that this folder is (default: by its path)",
    )
    add(
        "--parts",
        default="",
        metavar="PARTS",
        help=f"parts to add, whatever the repository uses, separated by commas: {', '.join(PARTS)}",
    )
    add("--dry-run", action="store_true", help="show what would be written, and write nothing")
    add_printing(parser, "print the result as JSON")
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    if project is not None:
        raise PatchgenError("this command has a project of its own, which a [tool.patchgen] table does not change")
    parts = [part.strip() for part in options.parts.split(",") if part.strip()]
    result = make_parts(Path.cwd(), options.search_root, options.package_prefix, parts)
    if not options.dry_run:
        result.write()
    code = int(any(not addition.text and not addition.is_there for addition in result.additions))
    if options.json:
        print_json(_data(result, code))
        return code
    for addition in result.additions:
        _print(addition, options.dry_run)
    for part, reason in result.lacking:
        print(f"left out {part}: {reason}; --parts {part} writes it")
    if not options.dry_run and any(addition.part == "table" and addition.text for addition in result.additions):
        print("Run 'patchgen new <model type>' for a first config, such as 'patchgen new qwen3'.")
    return code


def _print(addition: Addition, dry_run: bool) -> None:
    path = display_path(addition.path)
    if addition.text:
        print(f"{'would be' if dry_run else 'wrote   '} {path}")
        print(addition.lines, end="")
    elif addition.is_there:
        print(f"same     {path}: {addition.reason}")
    else:
        print(f"left     {path}: {addition.reason}; add this yourself:")
        print(addition.lines, end="")


def _data(result: Initialized, code: int) -> dict[str, Any]:
    table = next((addition for addition in result.additions if addition.part == "table"), None)
    return {
        "schema": SCHEMA,
        "exit_code": code,
        "file": display_path(table.path) if table is not None else None,
        "search_root": display_path(result.project.search_root),
        "package_prefix": result.project.package_prefix,
        "parts": [
            {
                "part": addition.part,
                "file": display_path(addition.path),
                "lines": addition.lines,
                "written": bool(addition.text),
                "reason": addition.reason or None,
            }
            for addition in result.additions
        ],
        "left_out": dict(result.lacking),
    }
