"""The files that a run of the gate can be written to. A new format is a file beside this one, and a line below."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.checks.result import BAD, CheckResult
from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.files import write_files
from patchgen_core.report.figures import find_layers
from patchgen_core.report.gate.html import gate_html
from patchgen_core.report.gate.json import gate_json
from patchgen_core.report.gate.markdown import gate_markdown
from patchgen_core.report.gate.report import GateReport
from patchgen_core.report.html.figures import layers_picture


@dataclass(frozen=True)
class Format:
    """A format of report files.

    Attributes:
        text: the text of a file, given the report, the file's path, and the folder that paths are shown from.
        has_plots: whether it needs no pictures of the errors by layer beside the file.
    """

    text: Callable[[GateReport, Path, Path], str]
    has_plots: bool = False


def _sarif(report: GateReport, root: Path) -> str:
    from patchgen_core.report.gate.sarif import gate_sarif  # with the texts of all rules

    return gate_sarif(report, root)


FORMATS = {
    ".json": Format(lambda report, _, root: gate_json(report, root)),
    ".md": Format(lambda report, path, _: gate_markdown(report, path.parent)),
    ".html": Format(lambda report, _, root: gate_html(report, root), has_plots=True),
    ".sarif": Format(lambda report, _, root: _sarif(report, root), has_plots=True),
}
"""The formats by the ending of a file's name."""


def check_report_name(path: Path) -> None:
    """Raise a PatchgenError for a report file whose name ends as that of no format."""
    if path.suffix not in FORMATS:
        *others, last = FORMATS
        raise PatchgenError(f"report file '{display_path(path)}' must end in {', '.join(others)} or {last}")


def write_report(report: GateReport, path: Path, root: Path) -> None:
    """Write a report, its paths from ``root`` on, in the format that the file's name says; makes the folder."""
    check_report_name(path)
    write_files([(path, FORMATS[path.suffix].text(report, path, root))])


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
