"""Forwards the drift check's command line; ``python -m patchgen.check_patchgen`` is ``patchgen --check``."""

import sys

from patchgen_core.cli.main import build_check_cli, run
from patchgen_core.cli.main import build_check_cli as build_cli
from patchgen_core.project.project import DiscoveryConfig

__all__ = ["DiscoveryConfig", "build_check_cli", "build_cli"]

if __name__ == "__main__":
    run(["--check", *sys.argv[1:]])
