"""``patchgen doctor``: what can run on this machine."""

from __future__ import annotations

import argparse

from patchgen_core.checks.doctor import diagnosis_data, examine, print_diagnosis
from patchgen_core.cli.printing import add_printing, make_console, print_json
from patchgen_core.project.project import Project


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="List what can run on this machine: packages, devices, kernels, Triton's interpreter and its "
        "adapters, the project around the working directory; and what each one lacks.",
    )
    add_printing(parser, "print as JSON")
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    diagnosis = examine(project)
    if options.json:
        print_json(diagnosis_data(diagnosis))
    else:
        print_diagnosis(make_console(options), diagnosis)
    return 0
