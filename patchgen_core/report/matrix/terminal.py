"""Configs against releases, as text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import Console
from rich.text import Text

from patchgen_core.report.figures import shorten
from patchgen_core.report.matrix.breaks import Break, Place, find_breaks, short_names, span_text
from patchgen_core.report.terminal import print_problems
from patchgen_core.report.words import quantity
from patchgen_core.upgrade.matrix.config_cells import BROKEN
from patchgen_core.upgrade.matrix.results import Cell, MatrixReport, PatchRow, State

WORDS: dict[State, tuple[str, str]] = {
    "breaks": ("BRK", "breaks (how many things): it does not generate, or its module breaks a contract rule"),
    "absent": ("none", "the release has no such module"),
    "changed": ("chg", "upstream changed patched code (how many targets); it still generates"),
    "cosmetic": ("cosm", "other text, the same code"),
    "ok": ("ok", "the patched code is unchanged"),
}
"""The word in a cell, and what it means."""
BASE = "base"
"""The word in the cell of the version that a generated file is based on, where nothing is wrong."""
_STYLES: dict[State, str] = {
    "breaks": "bold red",
    "absent": "magenta",
    "changed": "yellow",
    "cosmetic": "cyan",
    "ok": "green",
}
_PLAIN_WIDTH = 100
_LONGEST_NAME = 36
_PLACES = 6
_GAP = "  "


def print_matrix(console: Console, report: MatrixReport, verbose: bool = False) -> None:
    """Print a table, what its words mean, what breaks where, and a summary; with ``verbose`` also every patch."""
    width = console.width if console.is_terminal else _PLAIN_WIDTH
    lines = _lines(report, verbose)
    for block in _blocks(report.versions, lines, width):
        console.print(block, soft_wrap=True)
        console.print()
    if report.rows and report.versions:
        console.print(_legend(report, verbose), soft_wrap=True)
    for entry in find_breaks(report):
        console.print()
        console.print(_break_text(entry, verbose), soft_wrap=True)
    if verbose:
        _print_changes(console, report)
    _print_rest(console, report)
    text, style = summary(report)
    console.print(Text(f"\n{text}", style), soft_wrap=True)


def summary(report: MatrixReport) -> tuple[str, str]:
    """The result in one line, and its style."""
    count = len(report.rows)
    if not count or not report.versions:
        return "There is nothing to show.", "yellow"
    newest = report.versions[-1]
    broken = sum(row.cells[-1].state in BROKEN for row in report.rows)
    configs = quantity(count, "config")
    if broken:
        return f"{configs}: {broken} cannot be generated from {newest} correctly.", "red"
    return f"{configs}: none breaks in {newest}.", "red" if report.failed else "green"


def word(cell: Cell, base: str, count: int = 0) -> str:
    """What a cell says, without colour; of how many things, where that is not 0."""
    if cell.state == "ok" and cell.version == base:
        return BASE
    text = WORDS[cell.state][0]
    return f"{count} {text}" if count and cell.state in ("breaks", "changed") else text


# --- the table -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    """A row of the table: its name, and a word and its style for each version."""

    name: str
    cells: tuple[tuple[str, str], ...]
    style: str = "bold"


def _lines(report: MatrixReport, verbose: bool) -> list[_Line]:
    names = short_names([row.config for row in report.rows])
    lines = []
    for row in report.rows:
        cells = [
            (word(cell, row.base, row.count(column)), _STYLES[cell.state]) for column, cell in enumerate(row.cells)
        ]
        lines.append(_Line(names[row.config], tuple(cells), "bold" if verbose else ""))
        for patch in row.patches if verbose else ():
            words = tuple((word(cell, row.base), _STYLES[cell.state]) for cell in patch.cells)
            lines.append(_Line(f"  {patch.target}", words, ""))
    return lines


def _blocks(versions: Sequence[str], lines: Sequence[_Line], width: int) -> Iterator[Text]:
    """The table; of more versions than fit side by side, one below the other."""
    if not lines or not versions:
        return
    room = min(max(len(line.name) for line in lines), _LONGEST_NAME)
    widths = [max(len(version), *(len(line.cells[n][0]) for line in lines)) for n, version in enumerate(versions)]
    first = 0
    while first < len(versions):
        last, used = first + 1, room + len(_GAP) + widths[first]
        while last < len(versions) and used + len(_GAP) + widths[last] <= width:
            used += len(_GAP) + widths[last]
            last += 1
        yield _block(versions, lines, widths, range(first, last), room)
        first = last


def _block(versions: Sequence[str], lines: Sequence[_Line], widths: Sequence[int], columns: range, room: int) -> Text:
    text = Text(" " * room)
    for number in columns:
        text.append(f"{_GAP}{versions[number]:<{widths[number]}}", "bold")
    for line in lines:
        text.rstrip()
        text.append("\n")
        text.append(f"{shorten(line.name, room):<{room}}", line.style)
        for number in columns:
            cell, style = line.cells[number]
            text.append(_GAP)
            text.append(f"{cell:<{widths[number]}}", style)
    text.rstrip()
    return text


def _legend(report: MatrixReport, verbose: bool) -> Text:
    cells = [(cell, row.base) for row in report.rows for cell in row.cells]
    if verbose:
        cells += [(cell, row.base) for row in report.rows for patch in row.patches for cell in patch.cells]
    words = {word(cell, base) for cell, base in cells}
    text = Text()
    for state, (short, meaning) in WORDS.items():
        if short in words:
            text.append(f"{short:<5}", _STYLES[state])
            text.append(f"{meaning}\n", "dim")
    if BASE in words:
        text.append(f"{BASE:<5}", _STYLES["ok"])
        text.append("the version that the generated file is based on\n", "dim")
    text.rstrip()
    return text


# --- what breaks, what changed ---------------------------------------------------------------------


def _break_text(entry: Break, verbose: bool) -> Text:
    text = Text(f"{entry.title}:", "bold red" if entry.is_ahead else "bold")
    for reason in entry.reasons:
        for line in reason.lines:
            text.append(f"\n  {line}", "red" if entry.is_ahead else "")
        places = reason.places if verbose or len(reason.places) <= _PLACES + 1 else reason.places[:_PLACES]
        for place in places:
            text.append(f"\n      {place}")
            text.append(f"  {place.location}", "dim")
        if len(places) < len(reason.places):
            text.append(f"\n      ... and {len(reason.places) - len(places)} more: -v shows all", "cyan")
    return text


def _print_changes(console: Console, report: MatrixReport) -> None:
    names = short_names([row.config for row in report.rows])
    for row in report.rows:
        for patch in row.patches:
            spans = list(spans_of(patch))
            if spans:
                place = Place(names[row.config], patch.target, patch.location)
                console.print(
                    Text.assemble("\n", (str(place), "bold"), (f"  {place.location}", "dim")), soft_wrap=True
                )
            for versions, reasons in spans:
                for reason in reasons:
                    console.print(Text.assemble((f"  {versions}  ", "dim"), reason), soft_wrap=True)


def spans_of(patch: PatchRow) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What upstream changed in a patch's target: versions next to each other with the same change, and the change."""
    for (state, reasons), cells in groupby(patch.cells, key=lambda cell: (cell.state, cell.reasons)):
        if state in ("changed", "cosmetic"):
            yield span_text(cells), reasons


def _print_rest(console: Console, report: MatrixReport) -> None:
    for note, count in Counter(note for row in report.rows for note in row.notes).items():
        console.print(Text(f"\nnote: {quantity(count, 'config')}: {note}", "yellow"), soft_wrap=True)
    for skipped in report.skipped:
        console.print(Text(f"skipped: {skipped}", "yellow"), soft_wrap=True)
    if report.failed:
        console.print()
        print_problems(console, report.failed)
