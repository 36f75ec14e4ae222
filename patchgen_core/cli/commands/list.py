"""``patchgen list``: the configs of a project."""

from __future__ import annotations

import argparse

from patchgen_core.cli.printing import add_printing
from patchgen_core.project.project import Project


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(prog=prog, description="List the project's configs.")
    parser.add_argument("-v", "--verbose", action="store_true", help="also name their files")
    add_printing(parser, "print them as JSON")
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    from patchgen_core.cli.listing import list_configs
    from patchgen_core.project.named_configs import find_named_project

    return list_configs(options, project or find_named_project([]))
