"""Edits in another release: where their places are there, and what they have to become."""
