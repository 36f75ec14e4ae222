"""What checks of a project may read, by what they are about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from patchgen_core.checks.kept.closure import Closure, Roots, find_closure, split_references
from patchgen_core.checks.kept.module_files import ModuleFiles
from patchgen_core.checks.settings import Settings
from patchgen_core.project.project import Project
from patchgen_core.project.pyproject import PYPROJECT


class Closures:
    """The closures of a project; those of configs and of models are looked for once."""

    def __init__(self, project: Project, settings: Settings, files: ModuleFiles) -> None:
        self._project, self._settings, self._files = project, settings, files
        self._closures: dict[Roots, Closure] = {}

    def of_config(
        self,
        path: Path,
        more: tuple[Path, ...] = (),
        *,
        runs_code: bool = True,
        follows_configs: bool = True,
        follows_functions: bool = True,
    ) -> Closure:
        """That of a config file, or of ``pyproject.toml``, and of more folders; for a check that runs code of the
        project, or one that reads it alone, with or without what config files import, and with or without what only
        functions outside of the folders do."""
        project, own = self._project, self._references()
        folders = [] if path.name == PYPROJECT else [project.output_folder(path).parent, path.parent]
        folders += [project.parity.toy_root] if project.parity.toy_root is not None else []
        if path.name != PYPROJECT:  # with the packages that it lies in, which an import of what it makes runs
            package = project.module_name(path).rpartition(".")[0]
            own = replace(own, texts=(path,), modules=(*filter(None, [package]), *own.modules))
        folders = list(dict.fromkeys([*folders, *more]))
        roots = replace(own, folders=tuple(folders), run=runs_code, follows_configs=follows_configs)
        return self._find(replace(roots, follows_functions=follows_functions))

    def of_models(self) -> Closure:
        """That of the process that runs models, whatever config they are of."""
        return self._find(self._references())

    def of_place(self, place: Path) -> Closure:
        """That of a folder or a file alone."""
        return find_closure(self._files, Roots(folders=(place,)) if place.is_dir() else Roots(files=(place,)))

    def list_files(self) -> set[str]:
        """The files in those of configs and models of which code runs, as inputs name them."""
        running = (closure for roots, closure in self._closures.items() if roots.run)
        return {name for closure in running for kind, name in closure.inputs if kind == "file"}

    def _find(self, roots: Roots) -> Closure:
        if roots not in self._closures:
            self._closures[roots] = find_closure(self._files, roots)
        return self._closures[roots]

    def _references(self) -> Roots:
        """What the project names for the process that runs models."""
        project, settings = self._project, self._settings
        references = (project.setup, *settings.setups, *project.parity.batches, *settings.toy_batches)
        return split_references((*references, *project.kernels))
