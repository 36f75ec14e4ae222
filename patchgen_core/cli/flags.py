"""``patchgen`` with flags in place of a subcommand, as the reference has it: generating, ``--check``, ``--list`` and
``--watch``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import NoReturn

from patchgen_core.cli.arguments import EXIT_CODES, add_config_name, add_no_cache, add_output, add_paths, add_rules
from patchgen_core.cli.printing import add_formats, read_rules
from patchgen_core.cli.selecting import select_named, watch_named
from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.project.named_configs import find_named_project
from patchgen_core.project.project import Project


class _FixedWidth(argparse.HelpFormatter):
    """For adding arguments, which asks for a formatter: what measures the terminal takes long to import."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=80)


class _Parser(argparse.ArgumentParser):
    def format_help(self) -> str:
        """Its usage, the subcommands and its flags."""
        from patchgen_core.cli.subcommands import help_text

        self.formatter_class = argparse.HelpFormatter
        title, _, flags = super().format_help().partition("positional arguments:")
        return f"{title.rstrip()}\n{help_text()}\n\nWithout a subcommand:\n{flags.lstrip(chr(10))}"

    def error(self, message: str) -> NoReturn:
        """Tell what is wrong, and where help is."""
        self.exit(2, f"{self.prog}: error: {message}\nRun '{self.prog} --help' for subcommands and flags.\n")


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = _Parser(
        prog=prog,
        usage=f"{prog} SUBCOMMAND ...\n       {prog} [flags] [path ...]",
        description=(
            "Modeling files of Hugging Face models, generated from patch configs and checked against upstream."
        ),
        epilog=f"'{prog} help SUBCOMMAND' explains one. {EXIT_CODES}",
        formatter_class=_FixedWidth,
    )
    add_paths(parser, "none, or with --check and --watch all of the project")
    add_output(parser)
    add_config_name(parser)
    add = parser.add_argument
    add("--list", action="store_true", help="list the project's configs")
    add("--all", action="store_true", help="use every config of the project")
    add("--dry-run", action="store_true", help="show files and diff without writing")
    add("--diff", action="store_true", help="write the .diff against upstream beside the module")
    add(
        "--discard-edits", action="store_true", help="write over generated files that were edited by hand; keep copies"
    )
    add("-v", "--verbose", action="store_true", help="say more")
    add("--check", action="store_true", help="compare generated files with a fresh generation; exit 1 on drift")
    add("--fix", action="store_true", help="with --check: rewrite drifted files")
    add("--prune", action="store_true", help="with --check --fix: remove generated files that no config makes")
    add(
        "--watch",
        action="store_true",
        help="check everything and rewrite what drifted, now and on every save, until Ctrl-C",
    )
    add_rules(parser)
    add("--html", type=Path, metavar="FILE", help="with --check: also write the results as an HTML page")
    add_no_cache(parser)
    add_formats(parser)
    add("--version", action="store_true", help="print the version")
    parser.set_defaults(exit_zero=False, statistics=False)
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Watch, list, check or generate configs; what that needs is imported for it alone. Returns the exit code."""
    if options.version:
        from importlib.metadata import version

        print(f"patchgen {version('pytest-patchgen')}")
        return 0
    _refuse_misspelt(options, project)
    _check_usage(options)
    read_rules(options)
    options.contracts = options.select is not None or options.ignore is not None
    if options.watch:
        return watch_named(options, project)
    if options.list:
        from patchgen_core.cli.listing import list_configs

        return list_configs(options, project or find_named_project([]))
    if options.check:
        from patchgen_core.cli.check import check_projects

        return check_projects(options, project)
    from patchgen_core.cli.generate import generate_configs

    return generate_configs(options, select_named(options, project))


def _refuse_misspelt(options: argparse.Namespace, project: Project | None) -> None:
    """A PatchgenError where the first word is near to a subcommand, and no config."""
    from patchgen_core.cli.subcommands import list_names

    word = options.paths[0] if options.paths else ""
    if not word.isidentifier() or os.path.exists(word):
        return
    hint = did_you_mean(word, list_names())
    try:
        (project or find_named_project([])).config_path(word)
    except PatchgenError as error:
        if hint:
            raise PatchgenError(f"there is no subcommand '{word}'", None, hint) from None
        problem = error.problems[0]
        message = f"there is no subcommand '{word}', and {problem.message}"
        raise PatchgenError(message, problem.location, problem.hint) from None


def _check_usage(options: argparse.Namespace) -> None:
    o, shows = options, options.list or options.dry_run or options.diff
    wrong_uses = {
        "--watch does not go with --check, --fix, --list, --dry-run, --diff or --json": o.watch
        and (o.check or o.fix or shows or o.json),
        "--fix needs --check": o.fix and not o.check,
        "--output-format github and sarif go with check": o.output_format in ("github", "sarif") and not o.check,
        "--html needs check": o.html is not None and not o.check,
        "--prune needs --check --fix": o.prune and not o.fix,
        "--select needs check": o.select is not None and not o.check,
        "--discard-edits does not go with --check, --watch, --list or --dry-run": o.discard_edits
        and (o.check or o.watch or o.list or o.dry_run),
        "--ignore needs check": o.ignore is not None and not o.check,
        "--check does not go with --list, --dry-run or --diff": o.check and shows,
        "--all and --list take no config": (o.all or o.list) and o.paths,
        "--output-dir needs the name of a config": o.output_dir is not None and not o.paths,
        "name a config, or give --all, --list, --check or --watch": not (
            o.paths or o.all or o.list or o.check or o.watch
        ),
    }
    for message, is_wrong in wrong_uses.items():
        if is_wrong:
            raise PatchgenError(message, None, "Run 'patchgen --help' for subcommands and flags.")
