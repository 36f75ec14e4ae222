"""``patchgen watch``: generated files kept current while people edit."""

from __future__ import annotations

import argparse

from patchgen_core.cli.arguments import add_config_name, add_no_cache, add_output, add_paths
from patchgen_core.cli.selecting import watch_named
from patchgen_core.project.project import Project


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog, description="Check everything and rewrite what drifted, now and on every save, until Ctrl-C."
    )
    add_paths(parser)
    parser.add_argument(
        "--checks",
        metavar="CHECKS",
        help="also run these checks of the configs that a save concerns, separated by commas, such as import,parity",
    )
    add_config_name(parser)
    add_output(parser)
    add_no_cache(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="say more")
    parser.add_argument("--no-color", action="store_true", help="print without colours")
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    return watch_named(options, project)
