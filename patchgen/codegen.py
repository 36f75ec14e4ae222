"""Forwards the generator of :mod:`patchgen_core.api.codegen`."""

from patchgen_core.api.codegen import ModelingCodeGenerator

__all__ = ["ModelingCodeGenerator"]
