"""What a process runs of a project, which imports nothing of tests."""

from __future__ import annotations

import importlib


def run_times(module: str) -> object:
    """What the project's function gives."""
    return importlib.import_module(module).times(3)
