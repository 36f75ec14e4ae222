"""Configs against many releases."""
