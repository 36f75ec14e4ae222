"""Figures of checks: the tables behind a failure, how near a green one came to its limits, and layers as SVG."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from patchgen_core.checks.result import Table
from patchgen_core.report.figures import Layer, decades, find_layers, has_layers, is_wrong, layers_of, rows_summary
from patchgen_core.report.html.components import fact_list, scrolled_table, table_cell
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
    count = tag("span", rows_summary(table), class_="dim")
    summary = tag("summary", tag("span", table.title, class_="label"), " ", count)
    whole = scrolled_table(table.title, table.columns, _rows(table))
    if not has_layers(table):
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
    others = fact_list((name, _number(value)) for name, value in plain.items()) if plain else Markup()
    return join_markup([_shares(runs), _worst(runs), others])


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


def _number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.2e}"


_WIDTH, _HEIGHT = 760, 236
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 22, 34
_FLOOR = _HEIGHT - _BOTTOM
_MOST_GRID_LINES = 9
_GROUP = re.compile(r"(?:^|\.)(\w+\.\d+)(?=\.|$)")
_LABEL_WIDTH = 64
_CHARACTER = 6.2
"""Width of a character of a label."""
_HEAD, _FOOT = 40, 24
"""Heights of what a file has above and below the drawing: titles, and the legend."""
_STYLE = """
text { font: 11px system-ui, sans-serif; fill: #545e69; }
.paper { fill: #ffffff; }
.head { font-size: 13px; font-weight: 600; fill: #1b2129; }
.axis { font-size: 10.5px; }
.grid { stroke: #d3dae2; stroke-width: 1; fill: none; }
.allowed { stroke: #2da44e; stroke-width: 1.8; fill: none; }
path.parting { stroke: #d1303f; stroke-width: 1.2; stroke-dasharray: 4 3; fill: none; }
text.parting { fill: #9b1024; font-weight: 600; }
.right { fill: #4596e0; stroke: #4596e0; }
.wrong { fill: #d1303f; stroke: #d1303f; }
.zero { fill: #ffffff; }
"""
"""The rules of a file; those of pages are in their style sheet."""


def layers_plot(table: Table, title: str, name: str) -> Markup:
    """The errors of a table's layers beside what is allowed, with a legend; ``name`` begins their ids."""
    layers = layers_of(table)
    if not layers:
        return Markup()
    scrolled = tag(
        "div", _svg(layers, title, name), class_="scroll", tabindex=0, role="group", aria_label=f"Plot: {title}"
    )
    legend = (tag("span", sample, f" {text}" if sample else text) for sample, text in _legend(layers))
    return tag("figure", scrolled, tag("figcaption", *legend), class_="plot")


def layers_picture(table: Table, title: str) -> str:
    """The text of an SVG file that shows the same as :func:`layers_plot` of a table that has rows."""
    layers = layers_of(table)
    legend, x = [], _LEFT
    for sample, text in _legend(layers):
        legend.append(tag("g", sample, transform=f"translate({x} {_HEIGHT + 3})") if sample else None)
        legend.append(tag("text", text, x=x + 18 * bool(sample), y=_HEIGHT + 13))
        x += round(len(text) * _CHARACTER) + 36
    picture = tag(
        "svg",
        tag("style", Markup(_STYLE)),
        tag("rect", y=-_HEAD, width=_WIDTH, height=_HEAD + _HEIGHT + _FOOT, class_="paper"),
        tag("text", title, x=_LEFT, y=18 - _HEAD, class_="head"),
        tag("text", table.title, x=_LEFT, y=34 - _HEAD),
        _svg(layers, f"{title}: {table.title}", "layers", width=_WIDTH, height=_HEIGHT),
        *legend,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 {-_HEAD} {_WIDTH} {_HEAD + _HEIGHT + _FOOT}",
        width=_WIDTH,
        height=_HEAD + _HEIGHT + _FOOT,
    )
    return f"{picture}\n"


def _svg(layers: Sequence[Layer], title: str, name: str, **size: float) -> Markup:
    first = next((number for number, layer in enumerate(layers) if not layer.is_right), None)
    drawing = _Drawing(layers)
    parts = [
        tag("title", title, id=f"{name}-t"),
        tag("desc", _description(layers, first), id=f"{name}-d"),
        *drawing.axis(),
        *drawing.groups(),
        *drawing.allowed(),
        *(() if first is None else drawing.parting(first)),
        *drawing.points(),
    ]
    return tag(
        "svg",
        *parts,
        role="img",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        aria_labelledby=f"{name}-t",
        aria_describedby=f"{name}-d",
        **size,
    )


def _description(layers: Sequence[Layer], first: int | None) -> str:
    count = f"{len(layers)} modules in the order in which they run"
    if first is None:
        return f"{count}; all agree."
    wrong, layer = sum(not layer.is_right for layer in layers), layers[first]
    allowed = f"{layer.allowed:.2e} is allowed" if layer.allowed else "the same bits are required"
    return f"{count}; {wrong} differ, first {layer.name}: its relative error is {layer.error:.2e} where {allowed}."


def _legend(layers: Sequence[Layer]) -> Iterator[tuple[Markup | None, str]]:
    has_limits = any(layer.allowed for layer in layers)
    yield _sample("circle", cx=7, cy=6, r=3.2, class_="right"), "agrees"
    yield _sample("rect", x=3.6, y=2.6, width=6.8, height=6.8, class_="wrong"), "differs"
    yield _sample("path", d="M0 6H14", class_="allowed"), "allowed" if has_limits else "allowed: the same bits"
    yield None, "zero is at the bottom, values that are not numbers at the top"


def _sample(shape: str, **attributes: str | float) -> Markup:
    return tag("svg", tag(shape, **attributes), viewBox="0 0 14 12", width=14, height=12, aria_hidden="true")


class _Drawing:
    """Layers from left to right, powers of ten from the floor up."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = layers
        self.low, self.high = decades(layers)
        self.step = (_WIDTH - _LEFT - _RIGHT) / len(layers)

    def _x(self, number: float) -> str:
        return _figure(_LEFT + self.step * (number + 0.5))

    def _y(self, value: float) -> float:
        if value <= 0:
            return _FLOOR
        power = math.log10(value) if math.isfinite(value) else self.high
        share = (min(max(power, self.low), self.high) - self.low) / (self.high - self.low)
        return _FLOOR - share * (_FLOOR - _TOP)

    def axis(self) -> Iterator[Markup]:
        every = max(1, math.ceil((self.high - self.low) / _MOST_GRID_LINES))
        for power in range(self.low, self.high + 1, every):
            y = _figure(self._y(10.0**power))
            yield tag("path", d=f"M{_LEFT} {y}H{_WIDTH - _RIGHT}", class_="grid")
            yield tag("text", f"1e{power}", x=_LEFT - 8, y=y, dy="0.32em", text_anchor="end")
        yield tag("text", "relative error", x=_LEFT, y=10, class_="axis")

    def groups(self) -> Iterator[Markup]:
        """A tick where a numbered block of the model begins, with its name where there is room."""
        last, room = "", 0.0
        for number, layer in enumerate(self.layers):
            match = _GROUP.search(layer.name)
            name = match[1] if match else ""
            if name != last and name:
                x = _LEFT + self.step * number
                yield tag("path", d=f"M{_figure(x)} {_TOP}V{_FLOOR + 6}", class_="grid")
                if x >= room:
                    yield tag("text", name, x=_figure(x + 3), y=_FLOOR + 14)
                    room = x + max(_LABEL_WIDTH, _CHARACTER * len(name) + 8)
            last = name
        yield tag("text", "modules, in the order in which they run", x=_LEFT, y=_HEIGHT - 4, class_="axis")

    def allowed(self) -> Iterator[Markup]:
        if not any(layer.allowed for layer in self.layers):
            yield tag("path", d=f"M{_LEFT} {_FLOOR}H{_WIDTH - _RIGHT}", class_="allowed")
            return
        d, last = [f"M{_LEFT} {_figure(self._y(self.layers[0].allowed))}"], self.layers[0].allowed
        for number, layer in enumerate(self.layers):
            if layer.allowed != last:
                d.append(f"H{_figure(_LEFT + self.step * number)}V{_figure(self._y(layer.allowed))}")
            last = layer.allowed
        yield tag("path", d=f"{''.join(d)}H{_WIDTH - _RIGHT}", class_="allowed")

    def parting(self, first: int) -> Iterator[Markup]:
        x = _LEFT + self.step * first
        yield tag("path", d=f"M{_figure(x)} {_TOP - 6}V{_FLOOR}", class_="parting")
        text, is_left = f"they differ from {self.layers[first].name}", x < _WIDTH / 2
        x, anchor = (x + 4, "start") if is_left else (x - 4, "end")
        yield tag("text", text, x=_figure(x), y=_TOP - 8, text_anchor=anchor, class_="parting")

    def points(self) -> Iterator[Markup]:
        """A mark for every layer: round where it agrees, square where it differs, hollow for zero."""
        for number, layer in enumerate(self.layers):
            x, y = self._x(number), self._y(layer.error)
            kind = ("right" if layer.is_right else "wrong") + (" zero" if layer.error == 0 else "")
            tip = tag("title", f"{layer.label}: {layer.error:.2e}, allowed {layer.allowed:.2e}")
            if layer.is_right:
                yield tag("circle", tip, cx=x, cy=_figure(y), r=3.2, class_=kind)
            else:
                corner = _figure(float(x) - 3.4), _figure(y - 3.4)
                yield tag("rect", tip, x=corner[0], y=corner[1], width=6.8, height=6.8, class_=kind)


def _figure(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
