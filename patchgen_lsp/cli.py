"""``patchgen lsp``: the server as a process that an editor starts."""

from __future__ import annotations

import argparse
import gc

from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project

SECONDS = 20.0
"""How long loading and generating one config may take."""


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="A language server for patch configs, which editors start and speak to on standard input.",
        epilog="Exit codes: 0 stopped as asked, 2 usage or configuration error.",
    )
    limit = f"seconds that loading and generating a config may take (default: {SECONDS:g})"
    parser.add_argument("--time-limit", type=float, default=SECONDS, metavar="SECONDS", help=limit)
    parser.add_argument("--stdio", action="store_true", help="what it always does: some editors pass this")
    parser.set_defaults(json=False, no_color=False)
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Serve until the editor ends it; each file's project is the one around it. A PatchgenError without pygls."""
    try:
        from patchgen_lsp.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        hint = "Install the extra 'lsp': pip install 'pytest-patchgen[lsp]'."
        raise PatchgenError(f"the language server needs {error.name}", hint=hint) from None
    gc.enable()  # the command turns it off, being over soon
    serve(options.time_limit)
    return 0
