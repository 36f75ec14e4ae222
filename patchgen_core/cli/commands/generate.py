"""``patchgen generate``: modeling files, written as their configs make them."""

from __future__ import annotations

import argparse

from patchgen_core.cli.arguments import EXIT_CODES, add_config_name, add_no_cache, add_output, add_paths
from patchgen_core.cli.printing import add_printing
from patchgen_core.cli.selecting import select_named
from patchgen_core.project.project import Project


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog, description="Generate modeling files. If one of them fails, nothing is written.", epilog=EXIT_CODES
    )
    add_paths(parser)
    add_config_name(parser)
    add_output(parser)
    add = parser.add_argument
    add("--dry-run", action="store_true", help="show files and diff without writing")
    add("--diff", action="store_true", help="write the .diff against upstream beside the module")
    add("--discard-edits", action="store_true", help="write over files that were edited by hand; keep copies")
    add_no_cache(parser)
    add("-v", "--verbose", action="store_true", help="name every patch")
    add_printing(parser, "print results as JSON")
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    from patchgen_core.cli.generate import generate_configs

    return generate_configs(options, select_named(options, project))
