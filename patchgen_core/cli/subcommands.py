"""The subcommands of ``patchgen``: which there are, what each is for, and their modules."""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from typing import Protocol

    from patchgen_core.project.project import Project

    class Subcommand(Protocol):
        """What a module of ``commands`` has."""

        def build_parser(self, prog: str) -> argparse.ArgumentParser:
            """The parser of its arguments; ``prog`` is how it was called."""

        def run(self, options: argparse.Namespace, project: Project | None) -> int:
            """Run it for a project, or for the one that the options mean; returns the exit code."""


ENTRY_POINTS = "patchgen.commands"
"""The group of entry points by which packages add subcommands: ``name = "package.module"``."""
GROUPS = {
    "Every day": {
        "gate": "run every check: drift, import, contracts, parity, checkpoints, ranks, kernels",
        "check": "compare generated files with a fresh generation, and check the contract rules",
        "fix": "rewrite generated files that drifted",
        "baseline": "record today's findings, so that only new ones fail",
        "watch": "keep generated files current while you edit",
        "generate": "write modeling files",
    },
    "Write configs": {
        "new": "write the first config of a model",
        "adopt": "turn monkey patches or a fork into configs",
        "show": "upstream's text of a target, and what a config makes of it",
        "absorb": "turn hand edits of generated files into patches",
        "slim": "turn replacements that repeat upstream's text into edits",
        "lsp": "a language server for your editor",
    },
    "Other releases of transformers": {
        "upgrade": "what a release does to every patch, carrying over what it can",
        "matrix": "configs against releases",
    },
    "Look things up": {
        "list": "the configs of a project",
        "rule": "why a rule exists",
        "doctor": "what this machine has, and what it lacks",
        "toy": "the toy configuration that parity runs a model with",
        "batches": "what each batch of parity passes, and why it runs",
        "help": "this text, or a subcommand's",
    },
    "Project and results": {
        "init": "set a repository up: its table, ruff, pre-commit, workflow",
        "completion": "a script with which a shell completes arguments",
        "report": "merge reports, or write one in another format",
        "cache": "where results of earlier runs are kept",
        "serve": "a service that runs the gate for repositories and keeps the results",
    },
}
"""The subcommands of this package with a line each, in the order in which help lists them."""
_COMMANDS = "patchgen_core.cli.commands"


def find_subcommand(word: str) -> Subcommand | None:
    """The module of a subcommand: that of its name in ``commands``, or of a package's entry point; None for another
    word."""
    if not word.isidentifier() or word.startswith("_"):
        return None
    name = f"{_COMMANDS}.{word}"
    try:
        return cast("Subcommand", importlib.import_module(name))
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
    from importlib.metadata import entry_points

    return next((cast("Subcommand", entry.load()) for entry in entry_points(group=ENTRY_POINTS, name=word)), None)


def list_subcommands() -> dict[str, dict[str, str]]:
    """Groups of subcommands, with those of other packages last."""
    from importlib.metadata import entry_points

    own = {name for commands in GROUPS.values() for name in commands}
    added = {
        entry.name: f"of the package {entry.dist.name}" if entry.dist is not None else ""
        for entry in entry_points(group=ENTRY_POINTS)
        if entry.name not in own
    }
    return GROUPS | ({"Of other packages": added} if added else {})


def list_names() -> list[str]:
    """The names of all subcommands."""
    return [name for commands in list_subcommands().values() for name in commands]


def help_text() -> str:
    """What ``patchgen --help`` says of subcommands, below their usage."""
    lines = []
    for title, commands in list_subcommands().items():
        lines += ["", f"{title}:"]
        lines += [f"  {name:<10} {line}".rstrip() for name, line in commands.items()]
    return "\n".join(lines)
