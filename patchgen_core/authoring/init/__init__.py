"""What a repository is given so that it has a gate: its table, and its places in ruff, pre-commit and CI."""
