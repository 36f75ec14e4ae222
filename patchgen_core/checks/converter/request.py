"""What is asked of the check ``converter``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchgen_core.checks.model_process.request import BesideRequest
from patchgen_core.errors import Location


@dataclass(frozen=True)
class LoadingRequest(BesideRequest):
    """A generated module that checkpoints are loaded into; ``beside`` is its converter's module, empty for none.

    Attributes:
        package: the dotted name of the package that registers its classes; empty where none does.
        device_type: what the module is made for: "cuda", "npu", or empty where its name does not tell.
        patches: the targets of its patches, and where they are declared.
        toy_config, toy_root: as for the check ``parity``.
    """

    package: str
    device_type: str
    declared: Location
    patches: tuple[tuple[str, Location], ...] = ()
    toy_config: Mapping[str, Any] | str | None = None
    toy_root: str = ""
