"""The ``patchgen`` command.

A first word that names a subcommand is one; any other word is a config to work on.
Exit codes: 0 clean, 1 findings, 2 usage or configuration error.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from patchgen_core.cli.printing import add_printing, make_console, print_json, show_progress, split_codes
from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project

if TYPE_CHECKING:
    from typing import NoReturn

    from patchgen_core.build.cache import Cache
    from patchgen_core.build.results import DriftReport, Outcome
    from patchgen_core.build.selection import Selection
    from patchgen_core.checks.result import CheckResult
    from patchgen_core.config.loading import Loader
    from patchgen_core.syntax.source import SourceCache

Main = Callable[..., int]

_CHECK = "check"
_COMMANDS = "patchgen_core.cli.commands"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``patchgen``; the project is the one around the working directory."""
    return _main(sys.argv[1:] if argv is None else argv, None, "patchgen")


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """``patchgen`` as a process of its own, with its own arguments by default."""
    # A run makes many syntax trees and is over soon: collecting their cycles costs a fifth of a check.
    gc.disable()
    code = main(arguments)
    gc.freeze()  # the interpreter looks for cycles once more at its end, which takes as long again
    sys.exit(code)


def build_run_codegen_cli(project: Project, prog: str = "patchgen") -> Main:
    """A ``main(argv=None)`` with the arguments of ``patchgen``, for a project given here."""

    return lambda argv=None: _main(sys.argv[1:] if argv is None else argv, project, prog)


def build_check_cli(project: Project, prog: str = "patchgen-check") -> Main:
    """A ``main(argv=None)`` that is ``patchgen --check``, for a project given here."""

    mounted = build_run_codegen_cli(project, prog)
    return lambda argv=None: mounted(["--check", *(sys.argv[1:] if argv is None else argv)])


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Generate patched Hugging Face modeling files, and check that the checked-in ones are current.",
        epilog="'patchgen check' is 'patchgen --check' and the contract rules; 'patchgen rule' lists these; "
        "'patchgen report --help' tells of merging reports, 'patchgen new --help' of a first config, "
        "'patchgen adopt --help' of moving over from monkey patches, 'patchgen upgrade --help' and "
        "'patchgen matrix --help' of other releases of transformers. "
        "Exit codes: 0 clean, 1 findings, 2 usage or configuration error.",
    )
    add = parser.add_argument
    add("patch_module", nargs="*", help="config to use: its dotted module or its path")
    add("-o", "--output-dir", type=Path, help="output folder (default: generated/ beside the config)")
    add("-c", "--config-name", help="config variable in the module (default: config, and others the file makes)")
    add("--list", action="store_true", help="list the project's configs")
    add("--all", action="store_true", help="use every config of the project")
    add("--dry-run", action="store_true", help="show files and diff without writing")
    add("--diff", action="store_true", help="write the .diff against upstream beside the module")
    add("-v", "--verbose", action="store_true", help="say more")
    add("--check", action="store_true", help="compare generated files with a fresh generation; exit 1 on drift")
    add("--fix", action="store_true", help="with --check: rewrite what drifted")
    add("--prune", action="store_true", help="with --check --fix: remove generated files that no config makes")
    add("--watch", action="store_true", help="check all, rewrite what drifted, and again on every save until Ctrl-C")
    add("--select", metavar="CODES", help="check the contract rules of these codes, or beginnings of codes")
    add("--ignore", metavar="CODES", help="with contract rules: leave these out")
    add("--html", type=Path, metavar="FILE", help="with --check: write the results as a page, one file, as well")
    add("--no-cache", action="store_true", help="use no results of earlier runs, and keep none")
    add_printing(parser, "print results as JSON")
    parser.set_defaults(contracts=False)
    return parser


def _main(argv: Sequence[str], project: Project | None, prog: str) -> int:
    word = argv[0] if argv else ""
    command = _find_command(word)
    options = command.build_parser(f"{prog} {word}").parse_args(argv[1:]) if command else _options(list(argv), prog)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        if command is not None:
            return command.run(options, project)
        if options.watch:
            return _watch(options, project)
        project = project or load_project()
        return _list(options, project) if options.list else (_check if options.check else _generate)(options, project)
    except PatchgenError as error:
        _print_error(error, options)
        return 2
    except BrokenPipeError:  # what a shell reports of a program that SIGPIPE ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


class _Subcommand(Protocol):
    """What a module of ``commands`` has."""

    def build_parser(self, prog: str) -> argparse.ArgumentParser: ...
    def run(self, options: argparse.Namespace, project: Project | None) -> int: ...


def _find_command(word: str) -> _Subcommand | None:
    """The module of a subcommand: that of its name in ``commands``; None for another word."""
    name = f"{_COMMANDS}.{word}"
    if not word.isidentifier() or word.startswith("_") or importlib.util.find_spec(name) is None:
        return None
    return cast("_Subcommand", importlib.import_module(name))


def _options(arguments: list[str], prog: str) -> argparse.Namespace:
    word = arguments[0] if arguments else ""
    parser = _parser(prog)
    options = parser.parse_args(["--check", *arguments[1:]] if word == _CHECK else arguments)
    for key in ("select", "ignore"):
        given = getattr(options, key)
        setattr(options, key, None if given is None else split_codes(given))
    _check_usage(parser, options)
    options.contracts = word == _CHECK or options.select is not None or options.ignore is not None
    return options


def _check_usage(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    o, shows = options, options.list or options.dry_run or options.diff
    wrong_uses = {
        "--watch goes with none of --check, --fix, --list, --dry-run, --diff and --json": o.watch
        and (o.check or o.fix or shows or o.json),
        "--fix goes with --check": o.fix and not o.check,
        "--html goes with check": o.html is not None and not o.check,
        "--prune goes with --check --fix": o.prune and not o.fix,
        "--select goes with check": o.select is not None and not o.check,
        "--select names no rule": o.select == [],
        "--ignore goes with check": o.ignore is not None and not o.check,
        "--ignore names no rule": o.ignore == [],
        "--check goes with none of --list, --dry-run and --diff": o.check and shows,
        "--all and --list take no patch module": (o.all or o.list) and o.patch_module,
        "--output-dir goes with patch modules that are named": o.output_dir is not None and not o.patch_module,
        "name a patch module, or give --all, --list, --check or --watch": not (
            o.patch_module or o.all or o.list or o.check or o.watch
        ),
    }
    for message, is_wrong in wrong_uses.items():
        if is_wrong:
            parser.error(message)


def _watch(options: argparse.Namespace, project: Project | None) -> int:
    from patchgen_core.cli.watch import watch

    load = (lambda: project) if project is not None else load_project
    return watch(options, load, lambda project: _selection(options, project), make_console(options))


def _selection(options: argparse.Namespace, project: Project) -> Selection:
    from patchgen_core.build.selection import Selection

    configs = tuple(dict.fromkeys(map(project.config_path, options.patch_module))) or None
    output = Path(os.path.abspath(options.output_dir)) if options.output_dir is not None else None
    return Selection(project, configs, options.config_name, output)


def _list(options: argparse.Namespace, project: Project) -> int:
    paths = project.find_configs()
    if options.json:
        print_json([{"config": project.module_name(path), "path": display_path(path)} for path in paths])
        return 0
    for path in paths:
        print(f"{project.module_name(path)}  {display_path(path)}" if options.verbose else project.module_name(path))
    if not paths:
        print(f"no patch config below '{display_path(project.search_root)}'", file=sys.stderr)
    return 0


def _generate(options: argparse.Namespace, project: Project) -> int:
    from patchgen_core.api.codegen import generate_and_write
    from patchgen_core.build.cache import Cache
    from patchgen_core.report.data import SCHEMA, problem_data

    selection = _selection(options, project)
    cache = None if options.no_cache else Cache(project)
    with show_progress(options) as progress:
        results = generate_and_write(
            selection, dry_run=options.dry_run, save_diff=options.diff, progress=progress, cache=cache
        )
    _warn(cache)
    if options.json:
        made = [
            {
                "config": result.artifact.plan.label,
                "files": [display_path(path) for path, _ in result.artifact.output(options.diff)],
                "written": [display_path(path) for path in result.written],
                "diff": result.artifact.diff,
                "errors": problem_data(result.verdict.errors),
                "warnings": problem_data(result.verdict.warnings),
                "notes": list(result.verdict.notes),
            }
            for result in results
        ]
        print_json({"schema": SCHEMA, "exit_code": 0, "generated": made})
        return 0
    from patchgen_core.report.generated import print_generated

    print_generated(make_console(options), results, options.dry_run, options.diff, options.verbose)
    return 0


def _check(options: argparse.Namespace, project: Project) -> int:
    from patchgen_core.build.cache import Cache
    from patchgen_core.checks.checked_in.compare import check, fix

    selection = _selection(options, project)
    cache = None if options.no_cache else Cache(project)
    loader = _loader(project) if options.contracts else None  # which then reads no file again
    with show_progress(options) as progress:
        report = check(selection, loader=loader, progress=progress, cache=cache, artifacts=loader is not None)
    _warn(cache)
    contracts = _contracts(options, project, report, loader.sources) if loader is not None else []
    if options.fix:
        report = fix(report, options.prune)
    exit_code = max(report.exit_code, int(any(record.is_bad for record in contracts)))
    if options.html is not None:
        from patchgen_core.report.drift.html import write_drift

        write_drift(report, contracts, options.html)
    if options.json:
        from patchgen_core.report.drift.json import drift_data

        print_json(drift_data(report, contracts))
        return exit_code
    if not (options.verbose or options.contracts):
        from patchgen_core.report.drift.summary import print_clean

        if print_clean(report, options.no_color):
            return exit_code
    from patchgen_core.report.drift.terminal import print_contracts, print_drift

    print_drift(make_console(options), report, options.verbose)
    if options.contracts:
        print_contracts(make_console(options), contracts, options.verbose)
    return exit_code


def _loader(project: Project) -> Loader:
    from patchgen_core.config.loading import Loader
    from patchgen_core.syntax.source import SourceCache

    return Loader(project, SourceCache())


def _contracts(
    options: argparse.Namespace, project: Project, report: DriftReport, sources: SourceCache
) -> list[CheckResult]:
    """What the contract rules say of every config."""
    from patchgen_core.checks.contract.run import CONTRACT, Contracts
    from patchgen_core.checks.result import NO_MODULE, CheckResult

    def examine(outcome: Outcome) -> CheckResult:
        if outcome.artifact is not None:
            return contracts.examine(outcome.artifact, outcome.path)
        return CheckResult(outcome.label, str(outcome.path), outcome.line, CONTRACT, "skipped", reason=NO_MODULE)

    contracts = Contracts(project, sources, options.select, options.ignore or ())
    return [examine(result.outcome) for result in report.results]


def _warn(cache: Cache | None) -> None:
    if cache is not None and cache.failure:
        print(f"warning: results cannot be kept: {cache.failure}", file=sys.stderr)


# --- printing --------------------------------------------------------------------------------------


def _print_error(error: PatchgenError, options: argparse.Namespace) -> None:
    if options.json:
        from patchgen_core.report.data import error_data

        print_json(error_data(error.problems))
        return
    from patchgen_core.report.terminal import print_problems

    print_problems(make_console(options, stderr=True), error.problems)
