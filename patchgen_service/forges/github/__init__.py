"""GitHub: what it sends, and what is asked of it."""
