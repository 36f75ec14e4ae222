"""``[tool.patchgen]`` of a repository: what is where, and every setting."""
