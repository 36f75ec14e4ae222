"""Forwards the making of toy configurations."""

from patchgen_core.models.toy import toy_config_for

__all__ = ["toy_config_for"]
