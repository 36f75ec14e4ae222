"""``patchgen adopt --fork``: its options, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from patchgen_core.cli.printing import make_console, print_json
from patchgen_core.errors import display_path
from patchgen_core.project.project import Project
from patchgen_core.report.words import quantity

if TYPE_CHECKING:
    from patchgen_core.authoring.fork.adopt_fork import AdoptedFork


def add_fork_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a fork."""
    add = parser.add_argument_group("a forked modeling file").add_argument
    add("--fork", type=Path, metavar="FILE", help="a modified copy of upstream's modeling file")
    add("--of", metavar="MODULE", help="upstream's module (default: the one that shares most lines)")
    add("--release", metavar="VERSION", help="its release of transformers (default: the most similar one)")
    add("--to", metavar="VERSION", help="carry the config to this release, or to 'latest'")
    add("--offline", action="store_true", help="look only at releases that are installed or in the cache")


Carry = Callable[[list[str], Project], int]
"""Runs ``patchgen upgrade`` with arguments; returns its exit code."""


def run_fork(options: argparse.Namespace, project: Project, carry: Carry) -> int:
    """Adopt a fork; returns the exit code."""
    from patchgen_core.authoring.fork.adopt_fork import adopt_fork
    from patchgen_core.upstream.releases import Releases, release_folder

    _check_usage(options)
    console = make_console(options)
    version = None
    if options.to is not None:
        version = Releases(release_folder(project), offline=options.offline).find(options.to).version

    def tell(looked_at: str) -> None:
        if not options.json and console.is_terminal:
            console.print(Text(f"trying transformers {looked_at}", "dim"), soft_wrap=True)

    result = adopt_fork(
        project,
        options.fork,
        module=options.of,
        release=options.release,
        output=options.output,
        offline=options.offline,
        force=options.force,
        progress=tell,
    )
    code = int(bool(result.left))
    if options.json:
        print_json(_adopted_data(result, code))
    else:
        _print_adopted(console, project, result, is_carried=version is not None)
    return max(code, carry(_upgrade_words(options, result, version), project)) if version is not None else code


def _check_usage(options: argparse.Namespace) -> None:
    if options.adopted_model is not None:
        options.usage_error("--fork takes no model: name upstream's module with --of")
    if options.kwargs or options.imports or options.patcher or options.inline:
        options.usage_error("--from, --kwargs, --import and --inline are for monkey patches, --fork is for a file")
    if options.to is not None and options.json:
        options.usage_error("--to and --json do not go together: run 'patchgen upgrade --json' afterwards")


def _upgrade_words(options: argparse.Namespace, result: AdoptedFork, version: str) -> list[str]:
    """What makes ``patchgen upgrade`` carry the config to another release."""
    words = [display_path(result.path), "--to", version, "--from", result.origin.release.version]
    return [*words, "--apply", "--allow-dirty", "--no-gate", *["--offline"] * options.offline]


def _print_adopted(console: Console, project: Project, result: AdoptedFork, *, is_carried: bool) -> None:
    from patchgen_core.authoring.fork.origins import percent
    from patchgen_core.report.terminal import print_problems

    origin = result.origin
    for path in result.written:
        console.print(Text.assemble(("wrote    ", "green"), display_path(path)), soft_wrap=True)
    for line in (*result.changes, *result.notes):
        console.print(Text(f"         {line}", "dim"), soft_wrap=True)
    print_problems(console, result.left, "warning")
    looked_at = f"; looked at {', '.join(origin.looked_at)}" if len(origin.looked_at) > 1 else ""
    runner_up = f"; {origin.runner_up}" if origin.runner_up else ""
    where = f"{origin.module} of transformers {origin.release.version}"
    console.print(
        Text(f"A fork of {where}: {percent(origin.share)} of its lines{runner_up}{looked_at}."), soft_wrap=True
    )
    lines = f"{quantity(result.lines, 'line')} of config for {quantity(result.fork_lines, 'line')} of fork"
    if result.left:
        text = f"{lines}; the generated module differs from the fork in {quantity(len(result.left), 'place')}."
        console.print(Text(text, "yellow"), soft_wrap=True)
    else:
        console.print(Text(f"{lines}; the generated module is the same code.", "green"), soft_wrap=True)
    if not result.is_installed and not is_carried:
        command = f"patchgen upgrade {project.module_name(result.path)} --to VERSION --apply"
        console.print(Text(f"Run '{command}' to carry it to the release that is installed.", "cyan"), soft_wrap=True)


def _adopted_data(result: AdoptedFork, code: int) -> dict[str, Any]:
    from patchgen_core.report.data import SCHEMA, problem_data

    origin = result.origin
    return {
        "schema": SCHEMA,
        "exit_code": code,
        "path": display_path(result.path),
        "written": [display_path(path) for path in result.written],
        "upstream": origin.module,
        "release": origin.release.version,
        "share": round(origin.share, 4),
        "runner_up": origin.runner_up,
        "changes": list(result.changes),
        "left": problem_data(result.left),
        "renamed": dict(result.renamed),
        "notes": result.notes,
    }
