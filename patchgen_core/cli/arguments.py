"""Arguments that several subcommands have, under the same names and with the same meaning."""

from __future__ import annotations

import argparse
from pathlib import Path

EXIT_CODES = "Exit codes: 0 clean, 1 findings, 2 usage or configuration error."


def add_paths(parser: argparse.ArgumentParser, default: str = "all of the project") -> None:
    """Add what says which configs a subcommand is about."""
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="path",
        help=f"folder, config file, dotted config or node id of pytest (default: {default})",
    )


def add_config_name(parser: argparse.ArgumentParser) -> None:
    """Add the variable that holds a config."""
    parser.add_argument(
        "-c",
        "--config-name",
        metavar="NAME",
        help="variable that holds the config (default: config, and any others in the file)",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the output folder."""
    parser.add_argument(
        "-o", "--output-dir", type=Path, metavar="DIR", help="output folder (default: generated/ beside the config)"
    )


def add_rules(parser: argparse.ArgumentParser) -> None:
    """Add the choice of contract rules."""
    parser.add_argument("--select", metavar="CODES", help="contract rules to check: codes, or beginnings of codes")
    parser.add_argument("--ignore", metavar="CODES", help="contract rules to leave out")


def add_no_cache(parser: argparse.ArgumentParser) -> None:
    """Add the switch of results of earlier runs."""
    parser.add_argument("--no-cache", action="store_true", help="neither use nor keep results")
