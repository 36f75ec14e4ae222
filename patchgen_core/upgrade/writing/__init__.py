"""Merges written into configs, and the gate afterwards."""
