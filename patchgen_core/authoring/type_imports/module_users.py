"""Which files a config's generated module takes code from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.authoring.type_imports.origins import Origins
from patchgen_core.codegen.plan import Plan, make_plan
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.upstream.module import find_upstream


@dataclass(frozen=True)
class ModuleUser:
    """A config, and the files whose definitions it patches with: under their own names, or under others."""

    path: Path
    origins: Origins
    own: frozenset[Path]
    renamed: frozenset[Path]

    def is_about(self, path: Path) -> bool:
        """Whether code of a file is in its generated module."""
        return path == self.path or path in self.own or path in self.renamed

    def rank(self, path: Path) -> int:
        """How far its generated module is from telling what the names of a file are; 0 for a config's own file."""
        return 0 if path == self.path else 1 if path in self.own else 2


def find_users(project: Project, loader: Loader, path: Path) -> Iterator[ModuleUser]:
    """The configs of a file; none where one of them cannot be carried out, of which the gate tells why."""
    try:
        for loaded in loader.load(path):
            yield _user(project, loader, loaded)
    except PatchgenError:
        return


def _user(project: Project, loader: Loader, loaded: LoadedConfig) -> ModuleUser:
    config = loaded.config
    upstream = find_upstream(config.source_module, project.upstream, config.place_of("source_module"))
    plan = make_plan(config, upstream, loader.sources, loaded.modules, loaded.label)
    output = project.output_folder(loaded.path) / config.target_file
    own, renamed = _files(plan, is_renamed=False), _files(plan, is_renamed=True)
    return ModuleUser(loaded.path, Origins(project, plan, output), own, renamed)


def _files(plan: Plan, is_renamed: bool) -> frozenset[Path]:
    """The files that definitions of patches and helpers stand in."""
    parts = (part for planned in plan.patches for part in planned.declared)
    definitions = [(part.replacement, part.patch.name_map) for part in parts]
    definitions += [(helper.replacement, helper.helper.name_map) for helper in plan.helpers]
    return frozenset(
        Path(definition.location.file)
        for definition, name_map in definitions
        if definition is not None and bool(name_map) == is_renamed
    )
