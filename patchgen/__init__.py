"""The names of the reference documentation, forwarded to :mod:`patchgen_core`."""

from __future__ import annotations

import patchgen_core

TYPE_CHECKING = False  # as in patchgen_core
if TYPE_CHECKING:
    from typing import Any

    from patchgen_core import (
        DiscoveryConfig,
        Edits,
        ModelingCodeGenerator,
        PatchConfig,
        build_check_cli,
        build_run_codegen_cli,
        create_patch_from_external,
        list_patch_configs,
        run_codegen,
    )

__all__ = [
    "DiscoveryConfig",
    "Edits",
    "ModelingCodeGenerator",
    "PatchConfig",
    "build_check_cli",
    "build_run_codegen_cli",
    "create_patch_from_external",
    "list_patch_configs",
    "run_codegen",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(patchgen_core, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
