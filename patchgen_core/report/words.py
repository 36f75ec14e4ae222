"""Phrases that all reports have."""

from __future__ import annotations


def quantity(number: int, word: str) -> str:
    """A number of things: ``1 patch``, ``2 patches``, ``0 configs``."""
    return f"{number} {word}{'' if number == 1 else 'es' if word.endswith('ch') else 's'}"
