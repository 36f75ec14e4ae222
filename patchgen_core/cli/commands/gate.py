"""``patchgen gate``: every check, without pytest."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from patchgen_core.checks.gate import Gate, Item
from patchgen_core.checks.registry import CheckInfo, all_checks, choose_names
from patchgen_core.checks.result import BAD, CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import DEVICES, DRIFT, read_settings
from patchgen_core.cli.arguments import EXIT_CODES, add_no_cache, add_paths
from patchgen_core.cli.printing import add_formats, make_console, print_findings, show_progress
from patchgen_core.cli.streaming import add_streaming, open_stream
from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.project.named_configs import find_named_configs, is_whole, path_of, split_by_project
from patchgen_core.project.project import Project, no_configs
from patchgen_core.report.gate.details import print_details, verdict_text
from patchgen_core.report.gate.formats import check_report_name, with_pictures, write_report
from patchgen_core.report.gate.report import GateReport, with_unused
from patchgen_core.report.gate.stream import Stream
from patchgen_core.report.gate.terminal import (
    Commands,
    change_lines,
    file_lines,
    mending_lines,
    print_closing,
    summary_line,
)


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Run every check of patch configs: those of 'pytest --patchgen', without pytest.",
        epilog=EXIT_CODES,
    )
    add = parser.add_argument
    add_paths(parser)
    add("--checks", metavar="CHECKS", help="checks to run, separated by commas, such as drift,contract (default: all)")
    add("--fix", action="store_true", help="rewrite generated files that drifted")
    add("--prune", action="store_true", help="remove generated files that no config makes")
    add("--report", type=Path, metavar="PATH", help="write the results to a .json, .md, .html or .sarif file")
    add("--device", default=DEVICES[0], metavar="DEVICE", help=f"where models and kernels run: {', '.join(DEVICES)}")
    add("--isolate", action="store_true", help="run every check of a model or kernel in a process of its own")
    add("--time-limit", metavar="SECONDS", help="end a check of a model or kernel that takes longer (default: 600)")
    add_no_cache(parser)
    add_streaming(parser)
    add("-v", "--verbose", action="store_true", help="show a row for every config, all figures, and notes")
    add_formats(parser)
    parser.set_defaults(prog=prog)
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    with open_stream(options) as stream:
        return _run(options, project, stream)


def _run(options: argparse.Namespace, project: Project | None, stream: Stream) -> int:
    if options.report is not None:
        check_report_name(options.report)
    checks = _choose_checks(options)
    names = [check.name for check in checks]
    settings = read_settings(options, "", names)
    parts = [(project, tuple(options.paths))] if project is not None else split_by_project(options.paths)
    home = parts[0][0]
    root = home.base
    session = Session(home, settings, artifacts=names != [DRIFT])
    try:
        gate = Gate(session, checks)
        items = [item for part, paths in parts for item in _find_items(gate, part, paths)]
        gate.refuse_machine(items)
        stream.begin(len(items), settings.device, root)
        report = with_unused(GateReport(_run_items(gate, items, options, stream)))
    finally:
        session.close()
    stream.end(report)
    no_picture = ""
    if options.report is not None:
        report, no_picture = with_pictures(report, options.report)
        write_report(report, options.report, root)
    if options.output_format == "text":
        _print(options, report, no_picture)
    else:
        print_findings(options.output_format, report, root)
    return report.exit_code


def _choose_checks(options: argparse.Namespace) -> list[CheckInfo]:
    checks = {check.name: check for check in all_checks()}
    names = tuple(checks) if options.checks is None else choose_names(checks, [options.checks])
    return [checks[name] for name in names]


# --- what is checked -------------------------------------------------------------------------------


def _find_items(gate: Gate, home: Project, paths: Sequence[str]) -> list[Item]:
    if not paths:
        configs = home.find_configs()
        if not configs:
            raise no_configs(home)
        return gate.items(configs, [home.base])
    items = [item for path in paths for item in _find_items_of(gate, home, path)]
    return list(dict.fromkeys(items)) + (gate.items([], [home.base]) if is_whole(home, paths) else [])


def _find_items_of(gate: Gate, home: Project, path: str) -> list[Item]:
    """All items of the configs that a path means; the one of a node id."""
    items = gate.items(find_named_configs(home, [path]))
    _, _, name = path.partition("::")
    chosen = [item for item in items if name in ("", item.name)]
    if not chosen:
        names = list(dict.fromkeys(item.name for item in items))
        hint = did_you_mean(name, names) or f"Its items: {', '.join(names)}."
        raise PatchgenError(f"there is no item '{name}' in '{path_of(path)}'", None, hint)
    return chosen


# --- running and printing --------------------------------------------------------------------------


def _run_items(
    gate: Gate, items: Sequence[Item], options: argparse.Namespace, stream: Stream
) -> tuple[CheckResult, ...]:
    results: list[CheckResult] = []
    done: set[str] = set()
    with show_progress(options) as progress:
        for result in gate.run(items):
            results.append(result)
            stream.result(result)
            done.add(result.item)
            if progress is not None:
                progress(len(done), len(items))
    return tuple(results)


def _print(options: argparse.Namespace, report: GateReport, no_picture: str) -> None:
    console = make_console(options)
    pictures = [result.picture for result in report.results if result.picture]
    for result in report.results:
        if result.status in BAD:
            console.print(verdict_text(result), soft_wrap=True)
            print_details(console, result, options.verbose, is_whole=options.verbose)
    paths = options.paths
    commands = Commands(*(shlex.join([*options.prog.split(), flag, *paths]) for flag in ("--fix", "--prune")))
    lines = [
        *change_lines(report),
        summary_line(report),
        *file_lines(options.report, pictures, no_picture),
        *mending_lines(report, commands),
    ]
    print_closing(console, report, lines, table=bool(report.results), verbose=options.verbose, problems=())
