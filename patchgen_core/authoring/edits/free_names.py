"""Names for what a config's file defines."""

from __future__ import annotations

import re
from collections.abc import Container


def free_name(target: str, taken: Container[str]) -> str:
    """A name for a function that changes a target, such as ``qwen3_mlp_forward``, that is not taken."""
    parts = target.split(".")
    name = "_".join(part.strip("_") if number else _snake(part) for number, part in enumerate(parts))
    while name in taken:
        name = f"patched_{name}"
    return name


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
