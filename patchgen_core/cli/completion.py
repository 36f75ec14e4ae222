"""What a shell is told when somebody presses Tab behind ``patchgen``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from patchgen_core.cli.subcommands import list_names, list_subcommands
from patchgen_core.errors import PatchgenError
from patchgen_core.project.named_configs import find_named_project

if TYPE_CHECKING:
    from patchgen_core.project.project import Project

SHELLS = ("bash", "zsh", "fish")
Completer = Callable[..., Mapping[str, str]]


def make_script(program: str, shell: str) -> str:
    """What a shell runs once to complete the arguments of a program; a PatchgenError without argcomplete."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        hint = "Install the extra 'completion': pip install 'pytest-patchgen[completion]'."
        raise PatchgenError("completion needs the package 'argcomplete'", None, hint) from None
    return shellcode([program], shell=shell)


def complete(build_parser: Callable[[str], argparse.ArgumentParser], project: Project | None) -> None:
    """Tell the shell what may stand at the cursor, and end the process.

    Args:
        build_parser: the parser of a subcommand, or for any other word that of what stands without one.
        project: the project of the configs; by default that of the working directory.
    """
    import argcomplete
    from argcomplete.lexers import split_line

    _, _, _, words, _ = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))
    place = 3 if words[1:2] == ["--project"] else 1
    word = words[place] if len(words) > place else ""
    is_subcommand = word in list_names()
    if is_subcommand:
        os.environ["_ARGCOMPLETE"] = str(place + 1)  # which word of the line is the program
    parser = build_parser(word)
    completers = _completers(project, subcommands=not is_subcommand)
    for action in parser._actions:
        if action.dest in completers:
            vars(action)["completer"] = completers[action.dest]
    argcomplete.autocomplete(parser)


def _completers(project: Project | None, subcommands: bool) -> dict[str, Completer]:
    """What completes which argument, by its name in a parser."""

    def paths(prefix: str, **_: Any) -> dict[str, str]:
        return (_subcommands() if subcommands else {}) | _configs(project) | _files(prefix)

    return {
        "paths": paths,
        "codes": lambda prefix, **_: _rules(),
        "select": lambda prefix, **_: _after_comma(prefix, _rules()),
        "ignore": lambda prefix, **_: _after_comma(prefix, _rules()),
        "checks": lambda prefix, **_: _after_comma(prefix, _checks()),
        "model_type": lambda prefix, **_: _model_types(),
        "adopted_model": lambda prefix, **_: _model_types(),
        "subcommand": lambda prefix, **_: _subcommands(),
    }


def _subcommands() -> dict[str, str]:
    return {name: line for commands in list_subcommands().values() for name, line in commands.items()}


def _after_comma(prefix: str, values: Mapping[str, str]) -> dict[str, str]:
    """Values for the last of several that commas separate."""
    before = prefix[: prefix.rfind(",") + 1]
    return {before + value: text for value, text in values.items()}


def _files(prefix: str) -> dict[str, str]:
    from argcomplete.completers import FilesCompleter

    names: Iterable[str] = FilesCompleter(["py"])(prefix)
    return dict.fromkeys(names, "")


def _configs(project: Project | None) -> dict[str, str]:
    try:
        home = project or find_named_project([])
        return {home.module_name(path): "" for path in home.find_configs()}
    except PatchgenError:  # no project here, as somebody may well complete a path to one
        return {}


def _rules() -> dict[str, str]:
    from patchgen_core.checks.contract.run import EVERY_RULE

    return {rule.code: rule.name for rule in EVERY_RULE}


def _checks() -> dict[str, str]:
    from patchgen_core.checks.registry import all_checks

    return {check.name: check.meaning for check in all_checks()}


def _model_types() -> dict[str, str]:
    from patchgen_core.authoring.new.model_types import ModelTypes
    from patchgen_core.syntax.source import SourceCache

    try:
        return dict.fromkeys(ModelTypes(SourceCache()).names, "")
    except PatchgenError:  # transformers is not installed
        return {}
