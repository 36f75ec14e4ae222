"""``patchgen fix``: generated files that drifted, rewritten."""

from __future__ import annotations

import argparse

from patchgen_core.cli.arguments import EXIT_CODES, add_config_name, add_no_cache, add_paths
from patchgen_core.cli.printing import add_formats
from patchgen_core.project.project import Project


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Rewrite generated files that are not what their configs make. One that was edited by hand is "
        "kept as a copy first.",
        epilog=EXIT_CODES,
    )
    add_paths(parser)
    add_config_name(parser)
    parser.add_argument("--prune", action="store_true", help="remove generated files that no config makes")
    add_no_cache(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="name every config, and how it was loaded")
    add_formats(parser)
    parser.set_defaults(
        fix=True,
        contracts=False,
        select=None,
        ignore=None,
        output_dir=None,
        html=None,
        exit_zero=False,
        statistics=False,
    )
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    from patchgen_core.cli.check import check_projects

    return check_projects(options, project)
