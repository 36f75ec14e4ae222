"""Hand edits of generated files, made into patches of their configs."""
