"""The commands that the server carries out when a person chooses an action or clicks a lens."""

SHOW_DIFF = "patchgen.showDiff"
"""Shows what a config changes in upstream's module."""
REGENERATE = "patchgen.regenerate"
"""Writes what a config makes."""
