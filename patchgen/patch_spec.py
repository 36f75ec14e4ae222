"""Forwards :mod:`patchgen_core.config.spec`."""

from patchgen_core.config.declarations import Helper, ImportSpec, Patch
from patchgen_core.config.spec import PatchConfig, create_patch_from_external

__all__ = ["Helper", "ImportSpec", "Patch", "PatchConfig", "create_patch_from_external"]
