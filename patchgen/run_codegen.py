"""Forwards :func:`~patchgen_core.api.run_codegen` and its command line."""

from patchgen_core.api import list_patch_configs, run_codegen
from patchgen_core.cli import build_run_codegen_cli
from patchgen_core.cli import build_run_codegen_cli as build_cli
from patchgen_core.project import DiscoveryConfig

__all__ = ["DiscoveryConfig", "build_cli", "build_run_codegen_cli", "list_patch_configs", "run_codegen"]
