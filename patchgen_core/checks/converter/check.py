"""The check ``converter``."""

from __future__ import annotations

from patchgen_core.checks.model_process.check import BesideCheck

_ROOM = "patchgen_core.checks.converter"


class ConverterCheck(BesideCheck):
    """The checkpoints of the hub load through the converter, and go back."""

    name = "converter"
    file = "checkpoint_tensor_converter.py"
    function = f"{_ROOM}.comparison:check_request"
