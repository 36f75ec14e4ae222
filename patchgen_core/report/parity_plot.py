"""Errors by layer as a picture, for what parity found wrong. Needs matplotlib, which the extra ``plot`` brings."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.checks.result import BAD, CheckResult
from patchgen_core.checks.tables import BACKWARD, LAYERS, RIGHT, Table
from patchgen_core.errors import display_path
from patchgen_core.report.gate import GateReport
from patchgen_core.report.tables import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NONE = "No picture of the errors by layer"
MISSING = f"{_NONE}: that takes matplotlib (pip install 'pytest-patchgen[plot]')."
"""What is said where there is no matplotlib."""
_MOST_ROWS = 120
_BEFORE = 20
_LABEL = 52
_MOST_DECADES = 18
_INCHES_A_ROW, _INCHES_BESIDE = 0.17, 1.5
_RED, _BLUE, _GREY, _GREEN = "#c0392b", "#2c6fbb", "#8a8a8a", "#2e8b57"


@dataclass(frozen=True)
class Layer:
    """A row of a table of layers, as numbers.

    Attributes:
        name: the module's path.
        label: its path and class, as a picture has room for them.
        error, allowed: the relative error and its limit; the error of a value that is none is not finite.
        is_right: whether the limit is kept.
    """

    name: str
    label: str
    error: float
    allowed: float
    is_right: bool


def with_pictures(report: GateReport, path: Path) -> tuple[GateReport, str]:
    """Draw a picture for every failed record that has figures of layers, beside a report.

    Args:
        report: the report.
        path: the file that the report is going to be written to. Its name begins the pictures' names.

    Returns:
        The report with the names of its pictures, and why there are none; empty where nothing is to be said.
    """
    records = list(report.records)
    for number, record in enumerate(records):
        table = telling_layers(record.tables) if record.status in BAD else None
        if table is None:
            continue
        picture = path.with_name(f"{path.stem}-{_file_name(record)}.png")
        try:
            draw(table, picture, f"{record.config}: {record.name}")
        except ImportError as error:
            is_missing = (error.name or "").partition(".")[0] == "matplotlib"
            return report, MISSING if is_missing else f"{_NONE}: matplotlib does not import: {error}"
        except OSError as error:
            return report, f"{_NONE}: {display_path(picture)}: {error.strerror}"
        records[number] = replace(record, picture=str(picture))
    return replace(report, records=tuple(records)), ""


def telling_layers(tables: Sequence[Table]) -> Table | None:
    """The first table of layers, forward or backward; of one comparison the one that tells more comes first."""
    return next(filter(has_layers, tables), None)


def has_layers(table: Table) -> bool:
    """Whether a table's rows are layers, forward or backward."""
    return table.title.rpartition(": ")[2] in (LAYERS, BACKWARD)


def _file_name(record: CheckResult) -> str:
    name = f"{record.check}-{record.config}-{record.name.partition('[')[2].rstrip(']')}"
    return re.sub(r"[^\w.\-]+", "-", name).strip("-")


def draw(table: Table, path: Path, title: str) -> None:
    """Draw the relative error of every layer, from the first one down to the last, on a logarithmic axis.

    Args:
        table: figures of layers.
        path: the file to write.
        title: what the figures are of; the table's own title stands below it.

    Raises:
        ImportError: there is no matplotlib that works.
        OSError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    layers = _window(layers_of(table))
    figure = Figure(figsize=(10, _INCHES_BESIDE + _INCHES_A_ROW * max(len(layers), 8)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _fill(axes, layers)
    figure.suptitle(title, fontsize=11, fontweight="bold")
    axes.set_title(f"{table.title} ({len(layers)} of {len(table.rows)} modules)", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})  # without the version that drew it


def layers_of(table: Table) -> list[Layer]:
    """The rows of a table of layers as numbers, in their order."""
    return [_layer(table, row) for row in table.rows]


def _layer(table: Table, row: Sequence[str]) -> Layer:
    cells = dict(zip(table.columns, row))
    label = f"{shorten(cells['module'], _LABEL)}  {cells['class']}"
    return Layer(cells["module"], label, float(cells["relative"]), float(cells["allowed"]), cells["verdict"] == RIGHT)


def _window(layers: Sequence[Layer]) -> Sequence[Layer]:
    """As many layers as can be read, from a little above the first that differs."""
    first = next((number for number, layer in enumerate(layers) if not layer.is_right), 0)
    start = max(0, min(first - _BEFORE, len(layers) - _MOST_ROWS))
    return layers[start : start + _MOST_ROWS]


def _fill(axes: Axes, layers: Sequence[Layer]) -> None:
    low, high = limits(layers)
    rows = range(len(layers))
    shown = [min(max(layer.error, low), high) for layer in layers]
    allowed = [max(layer.allowed, low) for layer in layers]
    axes.set_xscale("log")
    axes.set_xlim(low / 1.5, high * 1.5)
    axes.set_ylim(len(layers) - 0.4, -0.6)  # the first layer on top
    axes.hlines(rows, low / 1.5, shown, colors=[_color(layer) for layer in layers], linewidth=1, alpha=0.45)
    for is_right, name in ((True, "agrees"), (False, "differs")):
        own = [n for n in rows if layers[n].is_right is is_right]
        color = _BLUE if is_right else _RED
        faces = [color if layers[n].error else "white" for n in own]
        axes.scatter([shown[n] for n in own], own, s=22, color=faces, edgecolors=color, zorder=3)
        axes.scatter([], [], s=22, color=color, label=name)
    if any(layer.allowed for layer in layers):
        axes.step(allowed, rows, where="mid", color=_GREEN, linewidth=1.2, label="allowed")
    else:
        axes.plot([], [], color=_GREEN, linewidth=1.2, label="allowed: the same bits")
    _mark_parting(axes, layers)
    axes.set_yticks(rows, [layer.label for layer in layers], fontsize=7, family="monospace")
    for label, layer in zip(axes.get_yticklabels(), layers):
        label.set_color("black" if layer.is_right else _RED)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(
        f"relative error (zero and what is below {low:.0e}: at the left edge; no value: at the right)", fontsize=8
    )
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", color=_GREY, alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)


def _color(layer: Layer) -> str:
    return _BLUE if layer.is_right else _RED


def limits(layers: Sequence[Layer]) -> tuple[float, float]:
    """The powers of ten around all figures, for a logarithmic axis."""
    figures = [f for layer in layers for f in (layer.error, layer.allowed) if f > 0 and math.isfinite(f)] or [1.0]
    high = math.ceil(math.log10(max(figures)) + 0.01)
    low = max(math.floor(math.log10(min(figures))) - 1, high - _MOST_DECADES)
    return 10.0**low, 10.0**high


def _mark_parting(axes: Axes, layers: Sequence[Layer]) -> None:
    first = next((number for number, layer in enumerate(layers) if not layer.is_right), None)
    if first is None:
        return
    axes.axhline(first - 0.5, color=_RED, linewidth=1, linestyle="--")
    axes.annotate(
        "here they part",
        (0.995, first - 0.5),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        fontsize=8,
        color=_RED,
    )
