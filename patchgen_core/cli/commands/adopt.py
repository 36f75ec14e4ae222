"""``patchgen adopt``: its arguments, and what it prints."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from patchgen_core.authoring.adopt.adopt_patcher import AdoptResult, adopt
from patchgen_core.cli.forks import add_fork_options, run_fork
from patchgen_core.cli.printing import add_printing, make_console, print_json
from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project

_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "none": None}


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of ``patchgen adopt``."""
    parser = argparse.ArgumentParser(
        prog=prog,
        usage=f"{prog} model [options]\n       {prog} --fork FILE [options]",
        description="Write a patch config that does what a monkey patch does: run it on upstream's module, in a "
        "process of its own, and declare everything that it changed. Or one that makes a forked modeling file.",
        epilog="Exit codes: 0 the config does all of it, 1 there is more than a config of this module can do "
        "(the findings say what), 2 usage or configuration error.",
    )
    parser.set_defaults(usage_error=parser.error)
    add = parser.add_argument
    add("adopted_model", nargs="?", metavar="model", help="model type, such as llama, or upstream's modeling module")
    add("--from", dest="patcher", default="", metavar="PATCHER", help=_FROM)
    add("--kwargs", nargs="+", default=[], metavar="NAME=VALUE", help="arguments for the patcher, such as rope=false")
    add("--import", dest="imports", action="append", default=[], metavar="MODULE", help=_IMPORT)
    add(
        "--inline",
        action="store_true",
        help="copy the functions of the patcher's modules, so that you can delete the modules",
    )
    add("-o", "--output", type=Path, help="file to write (default: <model>/<model>_gpu_patch_gen_config.py)")
    add("--force", action="store_true", help="overwrite an existing config")
    add_fork_options(parser)
    add_printing(parser, "print the result as JSON")
    return parser


_FROM = "liger (the default without --import), another registered patch type, or package.module:function"
_IMPORT = "module that registers patchers, or without --from one that patches when it is imported; can be repeated"


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    project = project or load_project()
    if options.fork is not None:
        return run_fork(options, project, _carry)
    _check_usage(options)
    result = adopt(
        project,
        options.adopted_model,
        options.patcher,
        output=options.output,
        arguments=parse_arguments(options.kwargs),
        imports=options.imports,
        inline=options.inline,
        force=options.force,
    )
    if options.json:
        print_json(adopted_data(result))
    else:
        print_adopted(make_console(options), result, f"patchgen {project.module_name(result.path)} --diff")
    return int(bool(result.findings))


def _carry(words: list[str], project: Project) -> int:
    """Run ``patchgen upgrade``."""
    from patchgen_core.cli.commands import upgrade

    return upgrade.run(upgrade.build_parser("patchgen upgrade").parse_args(words), project)


def _check_usage(options: argparse.Namespace) -> None:
    if options.adopted_model is None:
        options.usage_error("name a model, or a forked file with --fork")
    for name in ("of", "release", "to", "offline"):
        if getattr(options, name):
            options.usage_error(f"--{name} needs --fork")


def parse_arguments(entries: Iterable[str]) -> dict[str, Any]:
    """The patcher's arguments from ``name=value`` words: literals, true, false and the like, none; else strings.
    A PatchgenError where a word has another form, or a name comes twice."""
    arguments: dict[str, Any] = {}
    for entry in entries:
        name, equals, text = entry.partition("=")
        if not equals or not name.isidentifier():
            raise PatchgenError(f"--kwargs: '{entry}' does not have the form name=value")
        if name in arguments:
            raise PatchgenError(f"--kwargs: '{name}' is given twice")
        arguments[name] = _value(text)
    return arguments


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def print_adopted(console: Console, result: AdoptResult, generate: str) -> None:
    """Print what was written: the patches, what the patcher does beside, notes, and how to go on."""
    from patchgen_core.report.terminal import print_problems

    console.print(Text.assemble(("wrote    ", "green"), display_path(result.path)), soft_wrap=True)
    for line in (*result.changes, *result.notes):
        console.print(Text(f"         {line}", "dim"), soft_wrap=True)
    print_problems(console, result.findings, "warning")
    count = len(result.changes)
    text = Text(f"{count} patch{'es' * (count != 1)} of {result.patcher}", "yellow" if result.findings else "green")
    if result.findings:
        text.append(f"; {len(result.findings)} of its changes {'are' if len(result.findings) > 1 else 'is'} missing")
    text.append(".")
    text.append(f"\nRun '{generate}' to generate it.", "cyan")
    console.print(text, soft_wrap=True)


def adopted_data(result: AdoptResult) -> dict[str, Any]:
    """The result as JSON data."""
    from patchgen_core.report.data import SCHEMA, problem_data

    return {
        "schema": SCHEMA,
        "exit_code": int(bool(result.findings)),
        "path": display_path(result.path),
        "upstream": result.upstream,
        "patcher": result.patcher,
        "changes": list(result.changes),
        "findings": problem_data(result.findings),
        "notes": list(result.notes),
    }
