"""The ``patchgen`` command.

A first word that names a subcommand is one; any other word is a config to work on.
Exit codes: 0 clean, 1 findings, 2 usage or configuration error.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from patchgen_core.cli.printing import add_printing, make_console, print_json, split_codes
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project

if TYPE_CHECKING:
    from typing import NoReturn, Protocol

    from patchgen_core.build.selection import Selection

    class _Subcommand(Protocol):
        """What a module of ``commands`` has."""

        def build_parser(self, prog: str) -> argparse.ArgumentParser: ...
        def run(self, options: argparse.Namespace, project: Project | None) -> int: ...


Main = Callable[..., int]

_CHECK = "check"
_COMMANDS = "patchgen_core.cli.commands"
ENTRY_POINTS = "patchgen.commands"
"""The group of entry points by which packages add subcommands: ``name = "package.module"``."""


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
        "'patchgen report --help' tells of merging reports, 'patchgen init --help' of a repository's first table, "
        "'patchgen new --help' of a first config, "
        "'patchgen adopt --help' of moving over from monkey patches, 'patchgen absorb --help' of edits by hand, "
        "'patchgen show --help' of upstream's text beside what comes of it, "
        "'patchgen slim --help' of replacements that repeat upstream's text, "
        "'patchgen upgrade --help' and 'patchgen matrix --help' of other releases of transformers. "
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
    add(
        "--discard-edits", action="store_true", help="write over generated files that were edited by hand; keep copies"
    )
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
        return _run(options, project)
    except PatchgenError as error:
        _print_error(error, options)
        return 2
    except BrokenPipeError:  # what a shell reports of a program that SIGPIPE ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _find_command(word: str) -> _Subcommand | None:
    """The module of a subcommand: that of its name in ``commands``, or of a package's entry point; None for another
    word."""
    if not word.isidentifier() or word.startswith("_"):
        return None
    name = f"{_COMMANDS}.{word}"
    try:
        return cast("_Subcommand", importlib.import_module(name))
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
    from importlib.metadata import entry_points

    return next((cast("_Subcommand", entry.load()) for entry in entry_points(group=ENTRY_POINTS, name=word)), None)


def _options(arguments: list[str], prog: str) -> argparse.Namespace:
    word = arguments[0] if arguments else ""
    parser = _parser(prog)
    options = parser.parse_args(["--check", *arguments[1:]] if word == _CHECK else arguments)
    for key in ("select", "ignore"):
        value = getattr(options, key)
        setattr(options, key, None if value is None else split_codes(value))
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
        "--discard-edits goes with none of --check, --watch, --list and --dry-run": o.discard_edits
        and (o.check or o.watch or o.list or o.dry_run),
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


def _run(options: argparse.Namespace, default_project: Project | None) -> int:
    """Watch, list, check or generate configs; what that needs is imported for it alone."""
    if options.watch:
        from patchgen_core.cli.watch import watch

        load = (lambda: default_project) if default_project is not None else load_project
        return watch(options, load, lambda project: _select(options, project), make_console(options))
    project = default_project or load_project()
    if options.list:
        from patchgen_core.cli.listing import list_configs

        return list_configs(options, project)
    if options.check:
        from patchgen_core.cli.check import check_configs

        return check_configs(options, _select(options, project))
    from patchgen_core.cli.generate import generate_configs

    return generate_configs(options, _select(options, project))


def _select(options: argparse.Namespace, project: Project) -> Selection:
    from patchgen_core.build.selection import select_configs

    output = Path(os.path.abspath(options.output_dir)) if options.output_dir is not None else None
    return select_configs(project, options.patch_module, options.config_name, output)


def _print_error(error: PatchgenError, options: argparse.Namespace) -> None:
    if options.json:
        from patchgen_core.report.data import error_data

        print_json(error_data(error.problems))
        return
    from patchgen_core.report.terminal import print_problems

    print_problems(make_console(options, stderr=True), error.problems)
