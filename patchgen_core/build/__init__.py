"""What configs make, normalized by ruff, and what is kept of it for the next run."""
