"""Forwards :func:`~patchgen_core.api.codegen.run_codegen` and its command line.

``patchgen.run_codegen`` is this module and, after ``from patchgen import run_codegen``, the function of that
name: calling the module calls the function. ``python -m patchgen.run_codegen`` is ``patchgen``.
"""

import sys
import types
from typing import Any

from patchgen_core.api.codegen import list_patch_configs, run_codegen
from patchgen_core.api.reading import load_patch_config_module
from patchgen_core.cli.main import build_run_codegen_cli, run
from patchgen_core.cli.main import build_run_codegen_cli as build_cli
from patchgen_core.project.project import DiscoveryConfig

__all__ = [
    "DiscoveryConfig",
    "build_cli",
    "build_run_codegen_cli",
    "list_patch_configs",
    "load_patch_config_module",
    "run_codegen",
]


class _CallableModule(types.ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return run_codegen(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule

if __name__ == "__main__":
    run()
