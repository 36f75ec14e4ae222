"""What the subcommands print with, the options for it, and a progress bar on a terminal."""

from __future__ import annotations

import argparse
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import PatchgenError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

    from patchgen_core.build.cache import Cache
    from patchgen_core.build.results import Progress
    from patchgen_core.checks.baseline_use import BaselineUse
    from patchgen_core.report.gate.report import GateReport


FORMATS = ("text", "json", "github", "sarif")
"""How findings can be printed: for people, as JSON, as annotations of GitHub Actions, for code scanning."""


class _SetFormat(argparse.Action):
    """Sets ``output_format``, and ``json`` with it, which other subcommands have alone."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        namespace.output_format = values or "json"
        namespace.json = namespace.output_format == "json"


def add_printing(parser: argparse.ArgumentParser, json_help: str) -> None:
    """Add what concerns how results are printed."""
    parser.add_argument("--json", action="store_true", help=json_help)
    _add_no_color(parser)


def add_formats(parser: argparse.ArgumentParser, formats: Sequence[str] = FORMATS) -> None:
    """Add what concerns how results are printed: in which of some formats."""
    text = f"how results are printed: {', '.join(formats)} (default: text)"
    parser.add_argument(
        "--output-format", choices=formats, action=_SetFormat, default="text", metavar="FORMAT", help=text
    )
    parser.add_argument("--json", action=_SetFormat, nargs=0, default=False, help="the same as --output-format json")
    _add_no_color(parser)


def _add_no_color(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-color", action="store_true", help="print without colours")


def print_findings(output_format: str, report: GateReport, root: Path) -> None:
    """Print what a run found in a format that is not for people; paths below ``root`` are relative to it."""
    if output_format == "github":
        from patchgen_core.report.gate.github import find_workspace, workflow_commands

        for command in workflow_commands(report, find_workspace(os.environ, root)):
            print(command)
        return
    from patchgen_core.report.gate.formats import FORMATS as FILES

    print(FILES[f".{output_format}"].text(report, root, root), end="")


def make_console(options: argparse.Namespace, stderr: bool = False) -> Console:
    """A console that prints as the options say, and text as it is."""
    from rich.console import Console

    return Console(
        stderr=stderr, no_color=getattr(options, "no_color", None) or None, highlight=False, markup=False, emoji=False
    )


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    import json

    print(json.dumps(value, indent=2))


def warn_of_failure(cache: Cache | None) -> None:
    """Tell on standard error why results cannot be kept for the next run, where they cannot."""
    if cache is not None and cache.failure:
        print(f"warning: results cannot be kept: {cache.failure}", file=sys.stderr)


def tell_baselines(uses: Iterable[BaselineUse]) -> None:
    """Tell on standard error what baselines hold back, where standard output is not for people."""
    from patchgen_core.report.gate.baseline import held_text

    for use in uses:
        print(held_text(use), file=sys.stderr)


def split_codes(text: str) -> list[str]:
    """The codes of rules that an argument names, separated by commas."""
    return [code.strip().upper() for code in text.split(",") if code.strip()]


def read_rules(options: Namespace) -> None:
    """Have ``select`` and ``ignore`` of options be codes; a PatchgenError where one names none."""
    for key in ("select", "ignore"):
        value = getattr(options, key)
        if value is None:
            continue
        codes = split_codes(value)
        if not codes:
            raise PatchgenError(f"--{key} names no rule", None, "'patchgen rule' lists them.")
        setattr(options, key, codes)


_AFTER = 1.0


@contextmanager
def show_progress(options: Namespace) -> Iterator[Progress | None]:
    """What to tell how many of how many configs are done, shown as a bar on a terminal once a run has taken a second;
    None where nobody would see it."""
    if options.json or not sys.stderr.isatty():
        yield None
        return
    started = time.monotonic()
    bars: list[Bar] = []

    def advance(done: int, total: int) -> None:
        if not bars and time.monotonic() - started > _AFTER:
            bars.append(_start_bar(options))
        for bar in bars:
            bar.update(bar.task_ids[0], completed=done, total=total)

    try:
        yield advance
    finally:
        for bar in bars:
            bar.stop()


def _start_bar(options: Namespace) -> Bar:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("patchgen"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, console=make_console(options, True), transient=True)
    bar.add_task("", total=None)
    bar.start()
    return bar
