"""The check ``plan``."""

from __future__ import annotations

from patchgen_core.checks.model_process.check import BesideCheck

_ROOM = "patchgen_core.checks.plan"


class PlanCheck(BesideCheck):
    """The parallel plan fits the parameters."""

    name = "plan"
    file = "parallel_plan.py"
    function = f"{_ROOM}.comparison:check_request"
    preparation = f"{_ROOM}.comparison:prepare_request"
