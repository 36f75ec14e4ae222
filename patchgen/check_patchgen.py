"""Forwards the drift check's command line."""

from patchgen_core.cli.main import build_check_cli
from patchgen_core.cli.main import build_check_cli as build_cli
from patchgen_core.project.project import DiscoveryConfig

__all__ = ["DiscoveryConfig", "build_check_cli", "build_cli"]
