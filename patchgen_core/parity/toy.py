"""Forwards the making of toy configurations."""

from patchgen_core.models.toy_config import toy_config_for

__all__ = ["toy_config_for"]
