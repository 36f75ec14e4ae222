"""The page of a matrix: configs and patches against releases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from patchgen_core.errors import Location
from patchgen_core.report.html.components import (
    HeatCell,
    HeatMap,
    badge,
    bullet_list,
    fact_list,
    folded_list,
    heat_cell,
    location_code,
    problems_view,
    scrolled_table,
    table_cell,
)
from patchgen_core.report.html.markup import Child, Markup, join_markup, tag
from patchgen_core.report.html.page import Facet, Page, Section, write_page
from patchgen_core.report.matrix.breaks import Reason, find_breaks, label_version, span_text
from patchgen_core.report.words import quantity
from patchgen_core.upgrade.matrix.results import STATES, Cell, MatrixReport, MatrixRow, PatchRow, State

_TONES: dict[State, str] = {"breaks": "bad", "absent": "none", "changed": "warn", "cosmetic": "info", "ok": "good"}
_BAD: tuple[State, ...] = ("breaks", "absent")


def write_matrix(report: MatrixReport, path: Path) -> None:
    """Write what several releases are to a project, as one HTML file; makes its folder."""
    write_page(matrix_page(report), path)


def matrix_page(report: MatrixReport) -> Page:
    """The page of a report."""
    rows = sorted(report.rows, key=lambda row: STATES.index(_newest(row)))
    sections = tuple(_section(row) for row in rows)
    kinds = {kind for section in sections for kind in section.values["kind"]}
    newest = report.versions[-1] if report.versions else ""
    broken = sum(_newest(row) in _BAD for row in rows)
    bad = "failed" if report.failed else "breaks"
    facets = (
        Facet("status", f"In {newest}", tuple((state, _TONES[state]) for state in STATES), is_chips=True),
        Facet("kind", "In any release", tuple((state, "none") for state in STATES if state in kinds)),
        Facet("first", "Breaks from", tuple((v, "none") for v in _edges(rows, "first_broken"))),
        Facet("works", "Works from", tuple((v, "none") for v in _edges(rows, "first_working"))),
    )
    return Page(
        "matrix",
        bad if report.exit_code else "ok",
        "bad" if report.exit_code else "good",
        f"{report.distribution}: {broken} of {len(rows)} configs break or are absent in {newest or 'no release'}",
        _facts(report, rows),
        facets,
        HeatMap("Configs and releases", report.versions, tuple(map(_heat_row, rows)), is_by_release=True),
        join_markup([problems_view(report.failed), folded_list("Left out", report.skipped)]),
        sections,
        _breaks(report),
    )


def _newest(row: MatrixRow) -> State:
    return row.cells[-1].state if row.cells else "ok"


def _edges(rows: Iterable[MatrixRow], name: str) -> list[str]:
    """The releases from which on a config or a patch breaks, or works, in their order."""
    versions = {getattr(entry, name) for row in rows for entry in (row, *row.patches)}
    return sorted(versions - {""}, key=label_version)


def _facts(report: MatrixReport, rows: Sequence[MatrixRow]) -> tuple[tuple[str, str], ...]:
    bases = sorted({row.base for row in rows if row.base}, key=label_version)
    facts = (
        ("releases", ", ".join(report.versions)),
        ("made for", ", ".join(bases)),
        ("tried besides", ", ".join(report.tried)),
        ("configs", str(len(rows))),
        ("patches", str(sum(len(row.patches) for row in rows))),
        ("exit code", str(report.exit_code)),
    )
    return tuple((name, value) for name, value in facts if value)


def _breaks(report: MatrixReport) -> Markup:
    """What breaks where, what has one reason together; what breaks in newer releases is unfolded."""
    parts: list[Markup] = []
    for entry in find_breaks(report):
        reasons = (_reason(reason) for reason in entry.reasons)
        summary = tag("summary", entry.title, " ", tag("span", quantity(len(entry.reasons), "reason"), class_="dim"))
        parts.append(tag("details", summary, tag("ul", *reasons, class_="plain"), class_="story", open=entry.is_ahead))
    if not parts:
        return Markup()
    return tag("section", tag("h2", "What breaks, and why", id="h-breaks"), *parts, aria_labelledby="h-breaks")


def _reason(reason: Reason) -> Markup:
    lines = "; ".join(reason.lines)
    places = [join_markup([str(p), " ", location_code(p.location)]) for p in reason.places]
    if len(places) == 1:
        return tag("li", lines, tag("p", places[0], class_="dim"))
    summary = tag("summary", lines, " ", tag("span", quantity(len(places), "place"), class_="dim"))
    return tag("li", tag("details", summary, tag("ul", *(tag("li", p) for p in places), class_="plain")))


def _heat_row(row: MatrixRow) -> tuple[HeatCell, ...]:
    cells = []
    for number, entry in enumerate(row.cells):
        heat = _heat_cell(entry)
        count = row.count(number)
        is_counted = count and entry.state not in ("ok", "absent")
        cells.append(replace(heat, text=f"{heat.text} {count}") if is_counted else heat)
    return tuple(cells)


def _heat_cell(entry: Cell) -> HeatCell:
    reasons = (*entry.reasons, *(problem.title for problem in entry.problems))
    more = "; ".join(reasons[:4]) + (f"; {len(reasons) - 4} more" if len(reasons) > 4 else "")
    return HeatCell(entry.state, _TONES[entry.state], more)


def _section(row: MatrixRow) -> Section:
    state = _newest(row)
    cells = [*row.cells, *(entry for patch in row.patches for entry in patch.cells)]
    states = {entry.state for entry in cells}
    problems = dict.fromkeys(problem.title for entry in cells for problem in entry.problems)
    return Section(
        row.config,
        str(Location(row.path, row.line)),
        state,
        _TONES[state],
        _summary(row),
        join_markup(_body(row)),
        {
            "status": (state,),
            "kind": tuple(name for name in STATES if name in states),
            "first": tuple(_edges([row], "first_broken")),
            "works": tuple(_edges([row], "first_working")),
        },
        (row.module, *(patch.target for patch in row.patches), *problems),
    )


def _summary(row: MatrixRow) -> str:
    """The first release that breaks it, or the first that works, or how many releases are what."""
    entries: list[MatrixRow | PatchRow] = [row, *row.patches]
    broken = [entry for entry in entries if entry.first_broken]
    if broken:
        first = min(broken, key=lambda entry: label_version(entry.first_broken))
        more = f"; so do {len(broken) - 1} more patches later on" if len(broken) > 1 else ""
        name = first.target if isinstance(first, PatchRow) else "it"
        return f"{name} breaks in {first.first_broken}{more}"
    works = [entry.first_working for entry in entries if entry.first_working]
    if works:
        return f"works from {max(works, key=label_version)} on"
    counts = [f"{sum(entry.state == state for entry in row.cells)} {state}" for state in STATES]
    return ", ".join(text for text in counts if not text.startswith("0 "))


def _body(row: MatrixRow) -> Iterator[Child]:
    yield fact_list((("module", row.module), ("made for", row.base or "unknown")))
    yield bullet_list(row.notes)
    versions = [entry.version for entry in row.cells]
    if row.patches:
        rows = (_patch_row(patch) for patch in row.patches)
        yield scrolled_table("Patches and releases", ("patch", "it breaks", *versions), rows, is_by_release=True)
    yield _reasons("The config as a whole", _own(row))
    for patch in row.patches:
        yield _reasons(patch.target, patch.cells, patch)


def _patch_row(patch: PatchRow) -> Markup:
    return tag(
        "tr",
        table_cell(patch.target, is_head=True, is_code=True),
        tag("td", _range(patch)),
        *(heat_cell(_heat_cell(entry)) for entry in patch.cells),
    )


def _range(patch: PatchRow) -> str:
    """From which release on, or up to which, a patch breaks."""
    ranges = []
    if patch.first_broken:
        ranges.append(f"from {patch.first_broken} on, works in {patch.last_working}")
    if patch.first_working:
        ranges.append(f"up to {patch.last_broken}, works from {patch.first_working} on")
    text = "; ".join(ranges)
    return text if patch.is_exact or not text else f"{text} (not all between were tried)"


def _own(row: MatrixRow) -> list[Cell]:
    """The cells of a config without what those of its patches say."""
    cells = []
    for number, entry in enumerate(row.cells):
        of_patches = [patch.cells[number] for patch in row.patches]
        problems = {problem for cell in of_patches for problem in cell.problems}
        reasons = {reason for cell in of_patches for reason in cell.reasons}
        reasons |= {f"{patch.target}: {reason}" for patch in row.patches for reason in patch.cells[number].reasons}
        own = tuple(problem for problem in entry.problems if problem not in problems)
        cells.append(replace(entry, reasons=tuple(r for r in entry.reasons if r not in reasons), problems=own))
    return cells


def _reasons(title: str, cells: Sequence[Cell], patch: PatchRow | None = None) -> Markup:
    parts: list[Markup] = []
    for (state, reasons, problems), group in groupby(cells, key=lambda c: (c.state, c.reasons, c.problems)):
        if not (reasons or problems):
            continue
        line = tag("p", badge(state, _TONES[state]), f" {span_text(group)}")
        parts.append(tag("li", line, bullet_list(reasons), problems_view(problems)))
    if not parts:
        return Markup()
    at = location_code(patch.location) if patch is not None else None
    head = tag("div", tag("h4", title), at, class_="head")
    return tag("div", head, tag("ul", *parts, class_="findings"), class_="record")
