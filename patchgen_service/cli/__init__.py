"""``patchgen serve``: the service as one process, and what looks after its data."""

from __future__ import annotations

import argparse
import gc
from pathlib import Path

from patchgen_core.project.project import Project


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Run the gate for a team's repositories, remember every result, and show and report them.",
        epilog="Exit codes: 0 stopped as asked, 2 usage or configuration error.",
    )
    add = parser.add_argument
    add("--data", type=Path, metavar="FOLDER", default=Path("patchgen-data"), help="folder of the service's data")
    add("--config", type=Path, metavar="FILE", help="its settings (default: service.toml in that folder)")
    add("--host", help="address to listen at (default: 127.0.0.1, this machine only)")
    add("--port", type=int, help="port to listen at (default: 8765)")
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Serve until it is told to stop; returns the exit code."""
    gc.enable()  # the command turns it off, being over soon
    from patchgen_service.cli.serving import serve

    return serve(options)
