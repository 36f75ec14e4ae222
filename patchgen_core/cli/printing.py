"""What the subcommands print with, and the options for it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def add_printing(parser: argparse.ArgumentParser, json_help: str) -> None:
    """Add what concerns how results are printed."""
    parser.add_argument("--json", action="store_true", help=json_help)
    parser.add_argument("--no-color", action="store_true", help="print without colours")


def make_console(options: argparse.Namespace, stderr: bool = False) -> Console:
    """A console that prints as the options say, and text as it is."""
    from rich.console import Console

    return Console(stderr=stderr, no_color=options.no_color or None, highlight=False, markup=False, emoji=False)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    import json

    print(json.dumps(value, indent=2))


def split_codes(text: str) -> list[str]:
    """The codes of rules that an argument names, separated by commas."""
    return [code.strip().upper() for code in text.split(",") if code.strip()]
