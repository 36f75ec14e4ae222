"""``python -m patchgen_lsp``: the server, where the command is not installed."""

from __future__ import annotations

import sys

from patchgen_lsp.cli import build_parser, run

if __name__ == "__main__":
    sys.exit(run(build_parser("python -m patchgen_lsp").parse_args(), None))
