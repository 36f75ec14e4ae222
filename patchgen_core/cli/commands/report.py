"""``patchgen report``: reports merged."""

from __future__ import annotations

import argparse
from pathlib import Path

from patchgen_core.cli.printing import add_formats, make_console, print_findings
from patchgen_core.project.project import Project
from patchgen_core.report.gate.formats import write_report
from patchgen_core.report.gate.json import read_report
from patchgen_core.report.gate.report import merge_reports
from patchgen_core.report.gate.terminal import print_gate


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Merge reports that 'pytest --patchgen-report' wrote, such as those of the jobs of a CI run.",
        epilog="Exit codes: those of the merged report, as of 'patchgen --check'.",
    )
    add = parser.add_argument
    add("reports", nargs="+", type=Path, help="report to read, a .json file")
    add("-o", "--output", type=Path, help="file to write the merged report to, .json, .md, .html or .sarif")
    add("-v", "--verbose", action="store_true", help="show a row for every config")
    add_formats(parser)
    return parser


def run(options: argparse.Namespace, _: Project | None) -> int:
    """Run it; returns the exit code."""
    report = merge_reports(read_report(path, Path.cwd()) for path in options.reports)
    if options.output is not None:
        write_report(report, options.output, Path.cwd())
    if options.output_format != "text":
        print_findings(options.output_format, report, Path.cwd())
        return report.exit_code
    console = make_console(options)
    print_gate(console, report, options.verbose)
    console.print(report.summary(), style="green" if report.is_green else "red", soft_wrap=True)
    return report.exit_code
