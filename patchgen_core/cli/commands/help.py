"""``patchgen help``: the help of the command, or of a subcommand."""

from __future__ import annotations

import argparse

from patchgen_core.cli import flags
from patchgen_core.cli.subcommands import find_subcommand, list_names
from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.project.project import Project


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(prog=prog, description="Print the help of the command, or of a subcommand.")
    parser.add_argument("subcommand", nargs="?", help="the subcommand (default: all, with a line each)")
    parser.add_argument("--no-color", action="store_true", help="print without colours")
    parser.set_defaults(prog=prog.rpartition(" ")[0])
    return parser


def run(options: argparse.Namespace, _: Project | None) -> int:
    """Run it; returns the exit code."""
    if options.subcommand is None:
        flags.build_parser(options.prog).print_help()
        return 0
    command = find_subcommand(options.subcommand)
    if command is None:
        raise PatchgenError(
            f"there is no subcommand '{options.subcommand}'", None, did_you_mean(options.subcommand, list_names())
        )
    command.build_parser(f"{options.prog} {options.subcommand}").print_help()
    return 0
