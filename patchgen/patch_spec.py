"""Forwards :mod:`patchgen_core.spec`."""

from patchgen_core.declarations import Helper, ImportSpec, Patch
from patchgen_core.spec import PatchConfig, create_patch_from_external

__all__ = ["Helper", "ImportSpec", "Patch", "PatchConfig", "create_patch_from_external"]
