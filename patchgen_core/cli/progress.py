"""A progress bar on a terminal."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from patchgen_core.cli.printing import make_console

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from patchgen_core.build.results import Progress

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
