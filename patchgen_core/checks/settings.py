"""How a run of the gate goes, and reading that from a command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.project.parity_settings import LEVELS

DEVICES = ("auto", "cpu", "cuda", "npu")
"""Where models and kernels may run."""
ACCELERATORS = {"cuda": "GPU", "npu": "NPU"}
"""What a cluster calls the devices that it counts, as Ray does."""
CONTRACT = "contract"
"""The check of the contract rules."""
JOBS = "PATCHGEN_JOBS"
"""The environment variable that says how many processes run checks where no option does."""
DRIFT = "drift"
"""The check that tells of configs which make nothing, and rewrites what drifted."""


@dataclass(frozen=True)
class Settings:
    """How a run of the gate goes.

    Attributes:
        device: where models and kernels run: "auto", "cpu", "cuda" or "npu".
        isolate: whether each check of a model or kernel gets a process of its own.
        time_limit: seconds that one of these may take; None for the default of the check.
        toy_batches: references of builders of toy batches, beside those of the projects.
        setups: references of functions that set up models, beside those of the projects.
        select: codes of the contract rules to run; None for those that the project's settings select.
        ignore: codes of contract rules to leave out, beside those that the project's settings do.
        level: how much parity varies beside training steps; empty for what the project's settings say.
        holds_back: whether the findings that a project's baseline has are held back.
    """

    fix: bool = False
    prune: bool = False
    device: str = "auto"
    isolate: bool = False
    time_limit: float | None = None
    caching: bool = True
    toy_batches: tuple[str, ...] = ()
    setups: tuple[str, ...] = ()
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    level: str = ""
    holds_back: bool = True


def read_settings(options: object, prefix: str, checks: Sequence[str], device: str = "") -> Settings:
    """The settings that the parsed options of a front end give, whose flags begin with ``--`` and ``prefix``.

    ``device`` is where models run if no option says it.

    Raises:
        PatchgenError: a flag has a value that it cannot have, or goes with a check that is not among ``checks``.
    """

    def value(name: str) -> object:
        return getattr(options, f"{prefix}{name}".replace("-", "_"))

    flag = next((name for name in ("prune", "fix") if value(name)), "")
    if flag and DRIFT not in checks:
        raise PatchgenError(f"--{prefix}{flag} needs the check '{DRIFT}', which does that")
    chosen, limit = value("device"), value("time-limit")
    return Settings(
        fix=bool(value("fix")),
        prune=bool(value("prune")),
        device=_read_device(str(chosen if chosen is not None else device or DEVICES[0])),
        isolate=bool(value("isolate")),
        time_limit=None if limit is None else _read_time_limit(f"--{prefix}time-limit", str(limit)),
        caching=not value("no-cache"),
        level=_read_level(str(value("level") or "")),
    )


def read_jobs(flag: str, text: str | None) -> int | None:
    """How many processes an option asks for, or else the environment; None where that is left to the machine."""
    if text is None:
        flag, text = JOBS, os.environ.get(JOBS) or None
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1000):
        raise PatchgenError(f"{flag} takes a number of processes from 1 to 1000, not '{text}'")
    return int(text)


def _read_device(text: str) -> str:
    if text not in DEVICES:
        hint = did_you_mean(text, DEVICES) or f"There are: {', '.join(DEVICES)}."
        raise PatchgenError(f"models cannot run on the device '{text}': there is no such device", None, hint)
    return text


def _read_level(text: str) -> str:
    if text and text not in LEVELS:
        hint = did_you_mean(text, LEVELS) or f"There are: {', '.join(LEVELS)}."
        raise PatchgenError(f"parity has no level '{text}'", None, hint)
    return text


def _read_time_limit(flag: str, text: str) -> float:
    import threading  # which a check of the drift need not load

    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise PatchgenError(f"{flag} takes a number of seconds, not '{text}'")
    return seconds
