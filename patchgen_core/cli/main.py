"""The ``patchgen`` command.

A first word that names a subcommand is one; any other word is a config to work on.
Exit codes: 0 clean, 1 findings, 2 usage or configuration error.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.cli import flags
from patchgen_core.cli.printing import make_console, print_json
from patchgen_core.cli.subcommands import find_subcommand
from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project

if TYPE_CHECKING:
    from typing import NoReturn

    from patchgen_core.cli.subcommands import Subcommand

Main = Callable[..., int]
_PROJECT, _HOME = "--project", "home_of_project"
_COMPLETING = "_ARGCOMPLETE"
"""Set by a shell that asks what may stand at its cursor."""


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


def _main(argv: Sequence[str], project: Project | None, prog: str) -> int:
    if _COMPLETING in os.environ:
        from patchgen_core.cli.completion import complete

        complete(lambda word: _choose_parser(word, project, prog)[1], project)
    arguments = list(argv) if project is not None else _move_project(argv)
    command, parser = _choose_parser(arguments[0] if arguments else "", project, prog)
    options, unknown = parser.parse_known_args(arguments[1:] if command else arguments)
    if unknown:
        parser.error(_unknown_text(parser, unknown))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        if (home := getattr(options, _HOME, None)) is not None:
            project = load_project(home)
        return (command or flags).run(options, project)
    except PatchgenError as error:
        _print_error(error, options)
        return 2
    except BrokenPipeError:  # what a shell reports of a program that SIGPIPE ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _choose_parser(word: str, project: Project | None, prog: str) -> tuple[Subcommand | None, argparse.ArgumentParser]:
    """The subcommand of a first word, None where it is none, and the parser of the arguments."""
    command = find_subcommand(word)
    parser = command.build_parser(f"{prog} {word}") if command else flags.build_parser(prog)
    if project is None:
        _add_project(parser)
    return command, parser


def _unknown_text(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> str:
    """That a parser does not know some arguments, with the nearest flag that it has."""
    message = f"unrecognized arguments: {' '.join(arguments)}"
    flag = arguments[0].partition("=")[0]
    hint = did_you_mean(flag, re.findall(r"--[\w-]+", parser.format_usage())) if flag.startswith("--") else ""
    return f"{message}\n  {hint}" if hint else message


def _move_project(argv: Sequence[str]) -> list[str]:
    """The arguments with ``--project`` behind the subcommand, where it may stand before it."""
    if len(argv) > 1 and argv[0] == _PROJECT:
        return [*argv[2:3], *argv[:2], *argv[3:]]
    if argv and argv[0].startswith(f"{_PROJECT}="):
        return [*argv[1:2], argv[0], *argv[2:]]
    return list(argv)


def _add_project(parser: argparse.ArgumentParser) -> None:
    """Add ``--project``, but where a subcommand of another package has such an argument itself."""
    text = "folder of the project (default: the project of the paths, or else of the working directory)"
    with contextlib.suppress(argparse.ArgumentError):
        parser.add_argument(_PROJECT, dest=_HOME, type=Path, metavar="DIR", help=text)


def _print_error(error: PatchgenError, options: argparse.Namespace) -> None:
    if getattr(options, "json", False):
        from patchgen_core.report.data import error_data

        print_json(error_data(error.problems))
        return
    from patchgen_core.report.terminal import print_problems

    print_problems(make_console(options, stderr=True), error.problems)
