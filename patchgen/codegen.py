"""Forwards the generator of :mod:`patchgen_core.api`."""

from patchgen_core.api import ModelingCodeGenerator

__all__ = ["ModelingCodeGenerator"]
