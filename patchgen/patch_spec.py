"""Forwards :mod:`patchgen_core.spec`."""

from patchgen_core.spec import Helper, ImportSpec, Patch, PatchConfig, create_patch_from_external

__all__ = ["Helper", "ImportSpec", "Patch", "PatchConfig", "create_patch_from_external"]
