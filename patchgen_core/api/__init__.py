"""Generating from Python code."""
