"""Forwards the generator of :mod:`patchgen_core.api`."""

from patchgen_core.api.codegen import ModelingCodeGenerator
from patchgen_core.api.reading import get_module_source

__all__ = ["ModelingCodeGenerator", "get_module_source"]
