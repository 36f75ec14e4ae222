"""How a run of the gate goes, as users say it."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from patchgen_core.errors import PatchgenError, did_you_mean

DEVICES = ("auto", "cpu", "cuda")
"""Where models and kernels may run."""


@dataclass(frozen=True)
class Settings:
    """How a run of the gate goes.

    Attributes:
        fix: whether drifted files are rewritten.
        prune: whether generated files that no config makes are removed.
        device: where models and kernels run: "auto", "cpu" or "cuda".
        isolate: whether each check of a model or kernel gets a process of its own.
        time_limit: seconds that one of these may take; None for the default of the check.
        caching: whether results of earlier runs are used, and those of this one kept.
        toy_batches: references of builders of toy batches, beside those of the projects.
    """

    fix: bool = False
    prune: bool = False
    device: str = "auto"
    isolate: bool = False
    time_limit: float | None = None
    caching: bool = True
    toy_batches: tuple[str, ...] = ()


def read_device(text: str) -> str:
    """A device; a PatchgenError where there is none of that name."""
    if text not in DEVICES:
        hint = did_you_mean(text, DEVICES) or f"There are: {', '.join(DEVICES)}."
        raise PatchgenError(f"there is no device '{text}' to run models on", None, hint)
    return text


def read_time_limit(flag: str, text: str) -> float:
    """Seconds that one check of a model may take; a PatchgenError that names the flag where the text says none."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise PatchgenError(f"{flag} takes a number of seconds, not '{text}'")
    return seconds
