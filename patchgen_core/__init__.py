"""pytest-patchgen: generate patched Hugging Face modeling files, and keep them what their configs make.

The names below are loaded when they are first used; importing this package loads none of them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost more than everything else here
if TYPE_CHECKING:
    from typing import Any

    from patchgen_core.api.codegen import ModelingCodeGenerator, list_patch_configs, run_codegen
    from patchgen_core.cli.main import build_check_cli, build_run_codegen_cli
    from patchgen_core.config.shared_edits import Edits
    from patchgen_core.config.spec import PatchConfig, create_patch_from_external
    from patchgen_core.errors import PatchgenError
    from patchgen_core.project.project import DiscoveryConfig, Project
    from patchgen_core.project.table import load_project

__version__ = "0.2.0.dev0"

__all__ = [
    "DiscoveryConfig",
    "Edits",
    "ModelingCodeGenerator",
    "PatchConfig",
    "PatchgenError",
    "Project",
    "build_check_cli",
    "build_run_codegen_cli",
    "create_patch_from_external",
    "list_patch_configs",
    "load_project",
    "run_codegen",
]

_HOMES = {
    "DiscoveryConfig": "project.project",
    "Edits": "config.shared_edits",
    "ModelingCodeGenerator": "api.codegen",
    "PatchConfig": "config.spec",
    "PatchgenError": "errors",
    "Project": "project.project",
    "build_check_cli": "cli.main",
    "build_run_codegen_cli": "cli.main",
    "create_patch_from_external": "config.spec",
    "list_patch_configs": "api.codegen",
    "load_project": "project.table",
    "run_codegen": "api.codegen",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"patchgen_core.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
