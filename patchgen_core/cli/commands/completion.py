"""``patchgen completion``: the script by which a shell completes its arguments."""

from __future__ import annotations

import argparse

from patchgen_core.cli.completion import SHELLS, make_script
from patchgen_core.project.project import Project


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Print a script with which a shell completes subcommands, flags, configs, rules and checks.\n\n"
        '  bash  eval "$(patchgen completion bash)"      in ~/.bashrc\n'
        '  zsh   eval "$(patchgen completion zsh)"       in ~/.zshrc, after compinit\n'
        "  fish  patchgen completion fish | source       in ~/.config/fish/config.fish",
        epilog="It needs the extra 'completion': pip install 'pytest-patchgen[completion]'.",
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    return parser


def run(options: argparse.Namespace, _: Project | None) -> int:
    """Run it; returns the exit code."""
    print(make_script("patchgen", options.shell))
    return 0
