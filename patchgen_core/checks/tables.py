"""Tables of figures that checks measured."""

from __future__ import annotations

from dataclasses import dataclass

TENSORS, LAYERS, BACKWARD = "tensors", "layers", "layers, backward"
"""How the titles of a comparison's tables end."""
RIGHT = "ok"
"""The verdict of a row that shows nothing wrong."""
WHOLE = "(model)"
"""What a table calls the model itself, whose path is empty."""


@dataclass(frozen=True)
class Table:
    """Figures that belong together, as text, a row each below the heads of their columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
