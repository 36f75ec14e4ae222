"""``patchgen serve``."""
