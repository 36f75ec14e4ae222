"""Edits of configs that people wrote, by libcst: what an edit is not about stays byte for byte."""
