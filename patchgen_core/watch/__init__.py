"""``patchgen --watch``: generates again what a save touches, and shows what changed."""
