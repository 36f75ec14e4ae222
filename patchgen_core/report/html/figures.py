"""Figures of checks: the tables behind a failure, and how near a green one came to what is allowed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from patchgen_core.checks.tables import Table
from patchgen_core.report.figures import find_layers, has_layers, is_wrong
from patchgen_core.report.html.components import fact_list, scrolled_table, table_cell
from patchgen_core.report.html.layer_plot import layers_plot
from patchgen_core.report.html.markup import Markup, join_markup, tag

_SHARE = "largest part of what is allowed"
_NUMBERS = ("absolute", "relative", "allowed")
_MOST_COLUMNS = 12


def tables_view(tables: Sequence[Table], name: str) -> Markup:
    """Tables of figures, each folded away, with a plot above those of layers; ``name`` begins their ids."""
    return join_markup(_table(table, f"{name}-{number}", number == 0) for number, table in enumerate(_ordered(tables)))


def _ordered(tables: Sequence[Table]) -> list[Table]:
    """The first table of layers before all others: its plot says most."""
    first = find_layers(tables)
    return [*([first] if first is not None else []), *(table for table in tables if table is not first)]


def _table(table: Table, name: str, is_first: bool) -> Markup:
    wrong = sum(is_wrong(table, row) for row in table.rows)
    has_verdict = bool(table.columns) and table.columns[-1] == "verdict"
    count = f"{wrong} of {len(table.rows)} differ" if has_verdict else f"{len(table.rows)} rows"
    summary = tag("summary", tag("span", table.title, class_="label"), " ", tag("span", count, class_="dim"))
    is_plotted = has_layers(table)
    whole = scrolled_table(table.title, table.columns, _rows(table))
    if not is_plotted:
        return tag("details", summary, whole, class_="figures")
    plot = layers_plot(table, table.title, name)
    below = tag("details", tag("summary", "The same as a table"), whole, class_="inner")
    return tag("details", summary, plot, below, class_="figures", open=is_first)


def _rows(table: Table) -> Iterator[Markup]:
    for row in table.rows:
        cells = [
            table_cell(text, "number" if column in _NUMBERS else "", is_head=number == 0, is_code=number == 0)
            for number, (column, text) in enumerate(zip(table.columns, row))
        ]
        yield tag("tr", *cells, class_="wrong" if is_wrong(table, row) else None)


def figures_view(figures: Mapping[str, float]) -> Markup:
    """Measurements by name: for each model how much of what is allowed its worst figure takes, and the worst relative
    error of each quantity; others as they are."""
    runs: dict[str, dict[str, float]] = {}
    plain: dict[str, float] = {}
    for key, value in figures.items():
        run, _, quantity = key.partition(": ")
        if quantity and run.count(", ") == 2:
            runs.setdefault(run, {})[quantity] = value
        else:
            plain[key] = value
    return join_markup([_shares(runs), _worst(runs), _other_figures(plain)])


def _shares(runs: Mapping[str, Mapping[str, float]]) -> Markup:
    """Models against batches: the share of what is allowed that the worst figure takes."""
    shares: dict[str, dict[str, float]] = {}
    for run, quantities in runs.items():
        model, _, batch = run.partition(", ")
        if _SHARE in quantities:
            shares.setdefault(model, {})[batch] = quantities[_SHARE]
    columns = list(dict.fromkeys(batch for row in shares.values() for batch in row))
    if not shares or len(columns) > _MOST_COLUMNS:
        return Markup()
    rows = (
        tag("tr", table_cell(model, is_head=True, is_code=True), *(_share(row.get(batch)) for batch in columns))
        for model, row in shares.items()
    )
    return scrolled_table("Largest part of what is allowed", ("model", *columns), rows, is_titled=True)


def _share(value: float | None) -> Markup:
    if value is None:
        return table_cell("\u2013", "number dim")
    if not math.isfinite(value):
        return table_cell("no number" if math.isnan(value) else "\u221e", "number t-bad")
    text = f"{value:.0%}" if value >= 0.01 or value == 0 else "< 1%"
    tone = "t-bad" if value > 1 else "t-warn" if value > 0.5 else ""
    return table_cell(text, f"number {tone}".strip())


def _worst(runs: Mapping[str, Mapping[str, float]]) -> Markup:
    """Each quantity's worst relative error, and where."""
    worst: dict[str, tuple[float, str]] = {}
    for run, quantities in runs.items():
        for quantity, value in quantities.items():
            if quantity != _SHARE and (quantity not in worst or not value <= worst[quantity][0]):
                worst[quantity] = (value, run)
    rows = [
        tag("tr", table_cell(quantity, is_head=True), table_cell(_number(value), "number"), table_cell(run))
        for quantity, (value, run) in worst.items()
    ]
    if not rows:
        return Markup()
    title = "Worst relative error of each quantity"
    table = scrolled_table(title, ("quantity", "relative error", "where"), rows)
    summary = tag("summary", tag("span", title, class_="label"), " ", tag("span", f"{len(rows)} rows", class_="dim"))
    return tag("details", summary, table, class_="figures")


def _other_figures(figures: Mapping[str, float]) -> Markup:
    return fact_list((name, _number(value)) for name, value in figures.items()) if figures else Markup()


def _number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.2e}"
