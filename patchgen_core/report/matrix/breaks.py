"""What breaks where in a matrix: what has the same reason together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from patchgen_core.errors import Location
from patchgen_core.project.project import CONFIG_SUFFIX
from patchgen_core.upgrade.matrix.config_cells import BROKEN, NO_MODULE, reasons_of
from patchgen_core.upgrade.matrix.results import Cell, MatrixReport, MatrixRow, PatchRow
from patchgen_core.upstream.versions import parse_version

if TYPE_CHECKING:
    from packaging.version import Version

_EVERYWHERE, _BREAKS, _WORKS = range(3)


class Edge(NamedTuple):
    """Where something stops or starts to work: which kind of break it is, the versions in which it breaks and works,
    and whether that is exact."""

    kind: int
    broken: str
    works: str
    is_exact: bool


@dataclass(frozen=True)
class Place:
    """A config, by what it is called for short, or the target of a patch of one, that breaks."""

    config: str
    target: str
    location: Location

    def __str__(self) -> str:
        return f"{self.config}: {self.target}" if self.target else self.config


@dataclass(frozen=True)
class Reason:
    """What breaks configs, a line each, and which."""

    lines: tuple[str, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Break:
    """What breaks at the same place among the versions; the title is a sentence without its full stop.

    ``is_ahead`` tells whether it breaks in versions newer than one in which it works, or in all.
    """

    title: str
    is_ahead: bool
    reasons: tuple[Reason, ...]


def find_breaks(report: MatrixReport) -> tuple[Break, ...]:
    """What breaks: in all versions, in newer ones from the oldest on, in older ones from the newest on."""
    names = short_names([row.config for row in report.rows])
    places: dict[Edge, dict[tuple[str, ...], list[Place]]] = {}
    for row in report.rows:
        entries: list[MatrixRow | PatchRow] = [row, *row.patches]
        for entry in entries:
            place = _place(entry, names[row.config])
            for edge, lines in _edges(entry, row):
                places.setdefault(edge, {}).setdefault(lines, []).append(place)
    breaks = []
    for edge in _sort_edges(places):
        reasons = tuple(Reason(lines, tuple(at)) for lines, at in places[edge].items())
        breaks.append(Break(_title(edge), edge.kind != _WORKS, reasons))
    return tuple(breaks)


def _place(entry: MatrixRow | PatchRow, config: str) -> Place:
    if isinstance(entry, PatchRow):
        return Place(config, entry.target, entry.location)
    return Place(config, "", Location(entry.path, entry.line))


def _edges(entry: MatrixRow | PatchRow, row: MatrixRow) -> Iterator[tuple[Edge, tuple[str, ...]]]:
    """Where a config or patch stops and starts to work, and why; nothing where the row of another one says it."""
    edges: list[tuple[Edge, tuple[str, ...]]] = []
    older = entry.reasons
    if entry.first_broken:
        edges.append((Edge(_BREAKS, entry.first_broken, entry.last_working, entry.is_exact), entry.reasons))
        older = next((reasons_of(cell) for cell in entry.cells if cell.version == entry.last_broken), ())
    if entry.first_working:
        edges.append((Edge(_WORKS, entry.last_broken, entry.first_working, entry.is_exact), older))
    if not edges and entry.cells and entry.cells[-1].state in BROKEN:
        cell = entry.cells[-1]
        patched = {problem for patch in row.patches for problem in patch.cells[-1].problems}
        own = cell.problems if entry is not row else [problem for problem in cell.problems if problem not in patched]
        edges.append((Edge(_EVERYWHERE, cell.version, "", True), reasons_of(cell, own)))
    for edge, reasons in edges:
        if reasons and (entry is row or reasons != (NO_MODULE,)):
            yield edge, reasons


def _sort_edges(edges: Iterable[Edge]) -> list[Edge]:
    def version(edge: Edge) -> Version:
        return label_version(edge.broken)

    groups = [[edge for edge in edges if edge.kind == kind] for kind in (_EVERYWHERE, _BREAKS, _WORKS)]
    return [*groups[0], *sorted(groups[1], key=version), *sorted(groups[2], key=version, reverse=True)]


def span_text(cells: Iterable[Cell]) -> str:
    """The versions of cells next to each other: ``5.1.0 to 5.4.0``, or the one that there is."""
    versions = [cell.version for cell in cells]
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"


def label_version(label: str) -> Version:
    """The version that a column is of, which may also say where it is from."""
    return parse_version(label.partition(" ")[0])


def _title(edge: Edge) -> str:
    kind, broken, works, is_exact = edge
    unsure = "" if is_exact else " (releases between these two were not tried)"
    if kind == _EVERYWHERE:
        return f"Breaks in {broken}, and works in no version that was tried"
    if kind == _BREAKS:
        return f"Breaks in {broken}, works in {works}{unsure}"
    return f"Works from {works} on, breaks in {broken}{unsure}"


def short_names(labels: Sequence[str]) -> dict[str, str]:
    """What configs are called in a table: the end of their dotted names, as long as it must be to tell them apart."""
    parts = {label: _parts(label) for label in labels}
    names = {label: parts[label][-1] for label in labels}
    for length in range(2, max(map(len, parts.values()), default=0) + 1):
        counts = Counter(names.values())
        for label in labels:
            if counts[names[label]] > 1:
                names[label] = ".".join(parts[label][-length:])
    return names


def _parts(label: str) -> list[str]:
    module, colon, name = label.partition(":")
    parts = module.removesuffix(CONFIG_SUFFIX.removesuffix(".py")).split(".")
    return [*parts[:-1], parts[-1] + colon + name]
