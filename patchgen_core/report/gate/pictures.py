"""Pictures of the errors by layer, beside a report whose format has no plots."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from patchgen_core.checks.result import BAD, CheckResult
from patchgen_core.errors import display_path
from patchgen_core.report.gate.formats import FORMATS
from patchgen_core.report.gate.report import GateReport
from patchgen_core.report.html.layer_plot import layers_picture
from patchgen_core.report.layers import find_layers


def with_pictures(report: GateReport, path: Path) -> tuple[GateReport, str]:
    """Draw a picture for every failed result that has figures of layers, where the report's format has no plots.

    Returns the report with the names of its pictures, which begin with that of the report's file, and why there are
    none; empty where nothing is to be said.
    """
    if FORMATS[path.suffix].has_plots:
        return report, ""
    results = list(report.results)
    for number, result in enumerate(results):
        table = find_layers(result.tables) if result.status in BAD else None
        if table is None or not table.rows:
            continue
        picture = path.with_name(f"{path.stem}-{_file_name(result)}.svg")
        try:
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_text(layers_picture(table, f"{result.config}: {result.name}"), encoding="utf-8")
        except OSError as error:
            return report, f"No picture of the errors by layer: {display_path(picture)}: {error.strerror}"
        results[number] = replace(result, picture=str(picture))
    return replace(report, results=tuple(results)), ""


def _file_name(result: CheckResult) -> str:
    name = f"{result.check}-{result.config}-{result.name.partition('[')[2].rstrip(']')}"
    return re.sub(r"[^\w.\-]+", "-", name).strip("-")
