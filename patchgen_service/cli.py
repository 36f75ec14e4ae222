"""``patchgen serve``: the service as one process."""

from __future__ import annotations

import argparse

from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    return argparse.ArgumentParser(prog=prog, description="Run the gate for a team's repositories, and remember.")


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Serve until it is told to stop; returns the exit code."""
    raise PatchgenError("the service cannot be started yet: this version has its tables only")
