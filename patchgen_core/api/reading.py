"""Reading what a generation starts from: upstream's module, and a config's."""

from __future__ import annotations

import types

from patchgen_core.config.loading import Loader
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upstream.module import find_upstream


def get_module_source(module_name: str) -> str:
    """The text of an installed module, which is not imported; a PatchgenError where there is no such module."""
    return SourceCache().get(find_upstream(module_name).path).text


def load_patch_config_module(patch_module: str, project: Project | None = None) -> types.ModuleType:
    """A config file as a module, executed as a generation does: with stubs for what it imports where they suffice.

    Args:
        patch_module: its dotted name or path.
        project: that of the nearest ``pyproject.toml`` by default.

    Raises:
        PatchgenError: there is no such file, or it makes no config.
    """
    project = project or load_project()
    loaded = Loader(project, SourceCache()).load(project.config_path(patch_module))[0]
    module = types.ModuleType(loaded.module)
    module.__dict__.update(loaded.modules[loaded.module])
    return module
