"""How a failed check is shown, here and in the process that a worker reports to."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

import pytest

from patchgen_core.checks.result import BAD, CheckResult
from patchgen_core.errors import display_path

if TYPE_CHECKING:
    from _pytest._io import TerminalWriter
    from rich.console import Console


_ANY_WIDTH = 10_000


class CheckFailed(Exception):
    """A check found something."""

    def __init__(self, records: Sequence[CheckResult]) -> None:
        super().__init__("; ".join(record.headline for record in records if record.status in BAD))
        self.records = tuple(records)


@dataclass(frozen=True)
class Crash:
    """Where an item failed and why, in one line: what pytest calls a ``reprcrash``."""

    path: str
    lineno: int
    message: str

    def __str__(self) -> str:
        return f"{display_path(self.path)}:{self.lineno}: {self.message}"


class FailureRepr:
    """The verdict of a failed item: what pytest calls a ``longrepr``.

    ``str()`` of it is plain and complete. On a terminal it has the terminal's width and colours; ``folded`` long
    hunks, all figures with ``is_whole``, and only the one line of ``reprcrash`` when ``brief``. What one of the
    ``earlier`` results says in full is only named there, unless ``is_whole``.
    """

    def __init__(
        self, records: Sequence[CheckResult], traceback: str, folded: bool, brief: bool, is_whole: bool = True
    ) -> None:
        self.records, self.traceback, self.folded, self.brief = tuple(records), traceback, folded, brief
        self.is_whole = is_whole
        self.earlier: tuple[CheckResult, ...] = ()
        bad = [record for record in records if record.status in BAD]
        message = "; ".join(record.headline for record in bad)
        where = next((e.location for record in bad for e in record.errors if e.location), None)
        first = bad[0] if bad else self.records[0]
        self.reprcrash = Crash(where.file if where else first.path, where.line if where else first.line, message)

    def toterminal(self, tw: TerminalWriter) -> None:
        """Print the verdict."""
        if self.brief:
            return
        if self.traceback:
            tw.line(self.traceback)
        console = console_for(tw)
        self._print(console, self.folded, self.is_whole)
        write_console(console, tw)

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=StringIO(), width=_ANY_WIDTH, color_system=None, force_terminal=False)
        self._print(console, folded=False, is_whole=True)
        return "\n".join(filter(None, [self.traceback, _printed(console)]))

    def _print(self, console: Console, folded: bool, is_whole: bool) -> None:
        from patchgen_core.report.gate.details import print_details, print_told, verdict_text
        from patchgen_core.report.same_causes import find_told

        for record in self.records:
            if record.status in BAD:
                if text := verdict_text(record, named=len(self.records) > 1):
                    console.print(text, soft_wrap=True)
                told = None if is_whole else find_told(record, self.earlier)
                if told is not None:
                    print_told(console, record, told)
                    continue
                print_details(console, record, verbose=not folded, folded=folded, is_whole=is_whole)


def make_failure(config: pytest.Config, records: Sequence[CheckResult], traceback: str) -> FailureRepr:
    """The verdict of a failed item as the options of a session want it shown."""
    verbosity, style = config.get_verbosity(), config.getoption("tbstyle", "auto")
    return FailureRepr(records, traceback, verbosity < 2, style == "line", verbosity > 0)


def console_for(tw: TerminalWriter) -> Console:
    """A console that prints as pytest's own terminal does; without colours nothing is cut to a width."""
    from rich.console import Console

    return Console(
        file=StringIO(),
        width=tw.fullwidth if tw.hasmarkup else _ANY_WIDTH,
        force_terminal=tw.hasmarkup,
        color_system="standard" if tw.hasmarkup else None,
        no_color=not tw.hasmarkup,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def write_console(console: Console, tw: TerminalWriter) -> None:
    """Write what was printed to a console of :func:`console_for`, in characters that the terminal can show."""
    write_lines(_printed(console).splitlines(), tw)


def write_lines(lines: Iterable[str], tw: TerminalWriter) -> None:
    """Write lines in characters that the terminal can show."""
    encoding = getattr(sys.__stdout__, "encoding", None) or "utf-8"
    for line in lines:
        tw.line(line.encode(encoding, "replace").decode(encoding))


def _printed(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()
