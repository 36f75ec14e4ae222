"""The check ``plan``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from patchgen_core.checks.model_process.check import BesideCheck

_ROOM = "patchgen_core.checks.plan"


class PlanCheck(BesideCheck):
    """The parallel plan fits the parameters."""

    name = "plan"
    runs_in_workers = True
    follows_configs = False
    file = "parallel_plan.py"
    function = f"{_ROOM}.comparison:check_request"
    factory = "get_parallel_plan"

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing more."""
        return ()
