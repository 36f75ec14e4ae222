"""``patchgen gate``: every check, without pytest."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from patchgen_core.checks.gate import Gate, Item
from patchgen_core.checks.registry import CheckInfo, all_checks, choose_names
from patchgen_core.checks.result import BAD, CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import DEVICES, DRIFT, read_settings
from patchgen_core.cli.printing import add_printing, make_console, show_progress
from patchgen_core.cli.streaming import add_streaming, open_stream
from patchgen_core.errors import PatchgenError
from patchgen_core.project.file_tree import walk_files
from patchgen_core.project.project import CONFIG_SUFFIX, Project, no_configs
from patchgen_core.project.table import load_project
from patchgen_core.report.gate.details import print_details, verdict_text
from patchgen_core.report.gate.formats import check_report_name, with_pictures, write_report
from patchgen_core.report.gate.json import gate_json
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
        epilog="Exit codes: 0 clean, 1 findings, 2 usage or configuration error.",
    )
    add = parser.add_argument
    add("paths", nargs="*", metavar="path", help="folder, config file or dotted config (default: all of the project)")
    add("--checks", metavar="CHECKS", help="checks to run, separated by commas, such as drift,contract (default: all)")
    add("--fix", action="store_true", help="rewrite generated files that drifted")
    add("--prune", action="store_true", help="remove generated files that no config makes")
    add("--report", type=Path, metavar="PATH", help="write the results to a .json, .md or .html file")
    add("--device", default=DEVICES[0], metavar="DEVICE", help=f"where models and kernels run: {', '.join(DEVICES)}")
    add("--isolate", action="store_true", help="run every check of a model or kernel in a process of its own")
    add("--time-limit", metavar="SECONDS", help="end a check of a model or kernel that takes longer (default: 600)")
    add("--no-cache", action="store_true", help="use no results of earlier runs, and keep none")
    add_streaming(parser)
    add("-v", "--verbose", action="store_true", help="show a row for every config, all figures, and notes")
    add_printing(parser, "print the report as JSON")
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
    home = project or _find_home(options.paths)
    root = home.base if home is not None else Path.cwd()
    session = Session(home, settings, artifacts=names != [DRIFT])
    try:
        gate = Gate(session, checks)
        items = _find_items(gate, home, options.paths)
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
    if options.json:
        print(gate_json(report, root), end="")
    else:
        _print(options, report, no_picture)
    return report.exit_code


def _choose_checks(options: argparse.Namespace) -> list[CheckInfo]:
    checks = {check.name: check for check in all_checks()}
    names = tuple(checks) if options.checks is None else choose_names(checks, [options.checks])
    return [checks[name] for name in names]


# --- what is checked -------------------------------------------------------------------------------


def _find_home(paths: Sequence[str]) -> Project | None:
    """The project around the working directory; where paths are given, it need not be in one."""
    try:
        return load_project()
    except PatchgenError as error:
        if not paths or error.problems[0].location is not None:
            raise
    for path in paths:
        if os.path.exists(path):
            return load_project(Path(path) if os.path.isdir(path) else Path(path).parent)
    return None


def _find_items(gate: Gate, home: Project | None, paths: Sequence[str]) -> list[Item]:
    if not paths:
        assert home is not None
        configs = home.find_configs()
        if not configs:
            raise no_configs(home)
        return gate.items(configs, [home.base])
    configs = list(dict.fromkeys(config for path in paths for config in _find_configs(gate, home, path)))
    folders = [Path(os.path.abspath(path)) for path in paths if os.path.isdir(path)]
    is_whole = home is not None and any(home.search_root.is_relative_to(folder) for folder in folders)
    return gate.items(configs, [home.base] if home is not None and is_whole else [])


def _find_configs(gate: Gate, home: Project | None, path: str) -> Iterable[Path]:
    if not os.path.isdir(path):
        if home is None:
            raise PatchgenError(f"there is no config file '{path}'")
        return [home.config_path(path)]
    folder = Path(os.path.abspath(path))
    legacy = set(home.find_configs()) if home is not None else set()
    configs = [file for file in walk_files(folder) if file.name.endswith(CONFIG_SUFFIX) or file in legacy]
    if not configs:
        raise PatchgenError(f"there is no patch config in {path}: its name ends in '{CONFIG_SUFFIX}'")
    return sorted(configs)


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
