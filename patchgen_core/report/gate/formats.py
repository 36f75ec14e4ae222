"""The files that a run of the gate can be written to. A new format is a file beside this one, and a line below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.files import write_files
from patchgen_core.report.gate.html import html_text
from patchgen_core.report.gate.json import json_text
from patchgen_core.report.gate.markdown import markdown_text
from patchgen_core.report.gate.report import GateReport


@dataclass(frozen=True)
class Format:
    """A format of report files.

    Attributes:
        text: the text of a file, given the report, the file's path, and the folder that paths are shown from.
        has_plots: whether that draws the errors by layer; else pictures are drawn beside the file.
    """

    text: Callable[[GateReport, Path, Path], str]
    has_plots: bool = False


FORMATS = {
    ".json": Format(json_text),
    ".md": Format(markdown_text),
    ".html": Format(html_text, has_plots=True),
}
"""The formats by the ending of a file's name."""


def check_report_name(path: Path) -> None:
    """Raise a PatchgenError for a report file whose name ends as that of no format."""
    if path.suffix not in FORMATS:
        *others, last = FORMATS
        raise PatchgenError(f"report file '{display_path(path)}' ends in none of {', '.join(others)} and {last}")


def write_report(report: GateReport, path: Path, root: Path) -> None:
    """Write a report, its paths from ``root`` on, in the format that the file's name says; makes the folder."""
    check_report_name(path)
    write_files([(path, FORMATS[path.suffix].text(report, path, root))])
