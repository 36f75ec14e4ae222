"""``patchgen gate``: every check, without pytest."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from patchgen_core.checks.baseline_use import BaselineUse, close_baselines
from patchgen_core.checks.gate import Gate, Item
from patchgen_core.checks.result import BAD, CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import DEVICES, DRIFT, read_jobs, read_settings
from patchgen_core.checks.shards import choose_items, read_shard
from patchgen_core.cli.arguments import EXIT_CODES, add_no_cache, add_paths
from patchgen_core.cli.completing import complete_configs, tell_completed
from patchgen_core.cli.items import choose_checks, find_items, run_items
from patchgen_core.cli.printing import add_formats, make_console, print_findings, tell_baselines
from patchgen_core.cli.streaming import add_streaming, open_stream
from patchgen_core.errors import PatchgenError
from patchgen_core.project.named_configs import split_by_project
from patchgen_core.project.parity_settings import LEVELS, STANDARD
from patchgen_core.project.project import Project
from patchgen_core.report.gate.baseline import baseline_lines
from patchgen_core.report.gate.details import print_details, print_told, verdict_text
from patchgen_core.report.gate.formats import check_report_name, with_pictures, write_report
from patchgen_core.report.gate.json import read_seconds
from patchgen_core.report.gate.report import GateReport, with_unused
from patchgen_core.report.gate.stream import Stream
from patchgen_core.report.gate.terminal import (
    Commands,
    change_lines,
    file_lines,
    mending_lines,
    print_closing,
    print_lines,
    summary_line,
)
from patchgen_core.report.same_causes import find_told
from patchgen_core.workers.addresses import check_cluster


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
    jobs = "run the checks that take long in N processes (default: as many as processors and memory allow)"
    add("-j", "--jobs", metavar="N", help=jobs)
    add("--on", metavar="CLUSTER", help="run them on a Ray cluster: ray://host:10001, or ray for the one that is here")
    add("--level", help=f"how much parity varies: {', '.join(LEVELS)} (default: that of the project, or {STANDARD})")
    add("--shard", metavar="N/M", help="run one of M parts, such as 2/8: the others are for other jobs")
    add("--shard-by", type=Path, metavar="REPORT", help="divide by the seconds of an earlier run's .json report")
    add("-x", "--exitfirst", action="store_true", help="run nothing more once something is red")
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
    options.on = check_cluster("--on", options.on)
    checks = choose_checks(options)
    names = [check.name for check in checks]
    settings = read_settings(options, "", names)
    parts = [(project, tuple(options.paths))] if project is not None else split_by_project(options.paths)
    home = parts[0][0]
    root = home.base
    session = Session(home, settings, artifacts=names != [DRIFT])
    try:
        gate = Gate(session, checks, read_jobs("--jobs", options.jobs), options.on)
        items = [item for part, paths in parts for item in find_items(gate, part, paths)]
        items = _choose_part(gate, items, options, root)
        gate.refuse_machine(items)
        stream.begin(len(items), settings.device, root)
        results = run_items(gate, items, options, stream, stops=options.exitfirst)
        not_run = _find_not_run(gate, items, results) if options.exitfirst else ()
        report = with_unused(GateReport(results, not_run))
        is_whole = not (options.paths or options.shard or not_run)
        uses = close_baselines(session, report.results, is_whole, settings.fix)
        drifts = (item.path for item in items if item.name == DRIFT)
        completed = complete_configs(drifts, session.project) if settings.fix else ()
    finally:
        session.close()
    stream.end(report)
    no_picture = ""
    if options.report is not None:
        report, no_picture = with_pictures(report, options.report)
        write_report(report, options.report, root)
    if options.output_format == "text":
        _print(options, report, no_picture, uses)
    else:
        print_findings(options.output_format, report, root)
        tell_baselines(uses)
    tell_completed(options, completed)
    return report.exit_code


def _find_not_run(gate: Gate, items: Sequence[Item], results: Sequence[CheckResult]) -> tuple[str, ...]:
    """The items that did not run because another one was red."""
    if not any(result.is_bad for result in results):
        return ()
    done = {result.item for result in results}
    return tuple(node_id for node_id in map(gate.node_id, items) if node_id not in done)


def _choose_part(gate: Gate, items: Sequence[Item], options: argparse.Namespace, root: Path) -> list[Item]:
    """The items of the part that is asked for, of all where none is."""
    if options.shard is None:
        if options.shard_by is not None:
            raise PatchgenError(
                "--shard-by divides what --shard says, which is not there", None, "Such as --shard 2/8."
            )
        return list(items)
    shard = read_shard("--shard", options.shard)
    seconds = read_seconds(options.shard_by, root) if options.shard_by is not None else {}
    chosen = choose_items([gate.node_id(item) for item in items], shard, seconds)
    return [item for item in items if gate.node_id(item) in chosen]


def _print(options: argparse.Namespace, report: GateReport, no_picture: str, uses: Sequence[BaselineUse]) -> None:
    console = make_console(options)
    pictures = [result.picture for result in report.results if result.picture]
    for place, result in enumerate(report.results):
        if result.status in BAD:
            told = None if options.verbose else find_told(result, report.results[:place])
            console.print(verdict_text(result), soft_wrap=True)
            if told is not None:
                print_told(console, result, told)
            else:
                print_details(console, result, options.verbose, is_whole=options.verbose)
    commands = Commands(*(_command(options, flag) for flag in ("--fix", "--prune")))
    lines = [
        *change_lines(report),
        summary_line(report),
        *file_lines(options.report, pictures, no_picture),
        *mending_lines(report, commands),
    ]
    print_closing(console, report, lines, table=bool(report.results), verbose=options.verbose, problems=())
    print_lines(console, baseline_lines(uses, commands.fix))


def _command(options: argparse.Namespace, flag: str) -> str:
    """The same run with one more flag."""
    chosen = []
    if options.checks:
        chosen += ["--checks", options.checks]
    if options.device != DEVICES[0]:
        chosen += ["--device", options.device]
    if (home := getattr(options, "home_of_project", None)) is not None:
        chosen += ["--project", str(home)]
    return shlex.join([*options.prog.split(), flag, *chosen, *options.paths])
