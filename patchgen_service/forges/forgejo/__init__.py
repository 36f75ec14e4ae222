"""Forgejo and Gitea: what it sends, and what is asked of it."""
