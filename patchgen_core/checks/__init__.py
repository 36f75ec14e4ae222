"""The gate: what is proved of every config, a file or folder a check."""
