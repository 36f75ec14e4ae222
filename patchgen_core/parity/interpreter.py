"""Forwards the switch of Triton's interpreter."""

from patchgen_core.models.interpreter import switch_on

__all__ = ["switch_on"]
