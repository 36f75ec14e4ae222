"""What a check says of itself. Only what its own class says counts: one that goes on from it may do more."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from patchgen_core.checks.check import Check


def declared_inputs(check: Check, path: Path) -> Iterable[Path] | None:
    """What a check reads beside a config's own files; None where it does not say."""
    return check.inputs(path) if "inputs" in vars(type(check)) else None


def follows_configs(check: Check) -> bool:
    """Whether a check sees what config files import."""
    return _says(check, "follows_configs", True)


def follows_functions(check: Check) -> bool:
    """Whether a check sees what functions import when they are called."""
    return _says(check, "follows_functions", True)


def runs_in_workers(check: Check) -> bool:
    """Whether a check runs a project's code in processes that note what it does, and nowhere else."""
    return _says(check, "runs_in_workers", False)


def _says(check: Check, name: str, otherwise: bool) -> bool:
    return bool(vars(type(check)).get(name, otherwise))
