"""Generating from Python code, for build scripts that do not want the command line."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, ModuleType

from patchgen_core.build.artifacts import make_artifacts, make_outcomes
from patchgen_core.build.cache import Cache
from patchgen_core.build.hand_edits import copy_path, find_hand_edit
from patchgen_core.build.inputs import InputReader
from patchgen_core.build.results import Artifact, Progress
from patchgen_core.build.selection import Selection
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.checks.result import CheckResult
from patchgen_core.config.compilation import hidden_patches
from patchgen_core.config.loading import DEFAULT_NAME, LoadedConfig, Loader
from patchgen_core.config.spec import PatchConfig
from patchgen_core.errors import PatchgenError
from patchgen_core.files import write_files
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upstream.module import UpstreamModule, find_upstream


@dataclass(frozen=True)
class CodegenResult:
    """What :func:`run_codegen` made: texts and paths, the files that changed on disk (none for a dry run), what the
    contract rules say of it, and where a copy is kept of a module that was edited by hand and written over."""

    artifact: Artifact
    written: tuple[Path, ...]
    verdict: CheckResult
    copy: Path | None = None


def run_codegen(
    patch_module: str,
    output_dir: str | Path | None = None,
    config_name: str | None = None,
    *,
    dry_run: bool = False,
    save_diff: bool = False,
    discard_edits: bool = False,
    project: Project | None = None,
) -> list[CodegenResult]:
    """Generate the configs of one file, and write them when all of them generate.

    Args:
        patch_module: dotted name or path of the config file.
        output_dir: instead of ``generated/`` beside it.
        config_name: the variable that holds the config; by default all that the file makes.
        save_diff: write the ``.diff`` as well.
        discard_edits: write over modules that were edited by hand, and keep copies; if not, they are an error.
        project: that of the nearest ``pyproject.toml`` by default.

    Raises:
        PatchgenError: with everything that is wrong; then nothing was written.
    """
    project = project or load_project()
    output = Path(output_dir).absolute() if output_dir is not None else None
    selection = Selection(project, (project.config_path(patch_module),), config_name, output)
    return generate_and_write(selection, dry_run=dry_run, save_diff=save_diff, discard_edits=discard_edits)


def generate_and_write(
    selection: Selection,
    *,
    dry_run: bool = False,
    save_diff: bool = False,
    discard_edits: bool = False,
    progress: Progress | None = None,
    cache: Cache | None = None,
) -> list[CodegenResult]:
    """Generate config files, and write their modules when every one of them generates.

    ``discard_edits`` writes over modules that were edited by hand, which are an error otherwise; a copy of each is
    kept. ``cache`` keeps what the next check asks for.

    Raises:
        PatchgenError: with everything that is wrong; then nothing was written.
    """
    project = selection.project
    loader, reader = Loader(project, SourceCache()), InputReader(project)
    outcomes = make_artifacts(replace(selection, with_diffs=save_diff or dry_run), loader, progress)
    problems = [problem for outcome in outcomes for problem in outcome.problems]
    if problems:
        raise PatchgenError.from_problems(problems)
    contracts = Contracts(project, loader.sources)
    results = [
        (outcome.artifact, contracts.examine(outcome.artifact, outcome.path))
        for outcome in outcomes
        if outcome.artifact is not None
    ]
    files = [file for artifact, _ in results for file in artifact.output(save_diff)]
    artifacts = [artifact for artifact, _ in results]
    written, copies = ([], {}) if dry_run else _write_over(project, artifacts, files, discard_edits)
    if cache is not None:
        cache.keep(selection, outcomes, reader)
    return [
        CodegenResult(
            artifact, tuple(path for path, _ in artifact.files if path in written), verdict, copies.get(artifact.path)
        )
        for artifact, verdict in results
    ]


def _write_over(
    project: Project, artifacts: Sequence[Artifact], files: Iterable[tuple[Path, str]], discard_edits: bool
) -> tuple[list[Path], dict[Path, Path]]:
    """Write files of artifacts; returns those that changed, and the copies of modules that were edited by hand."""
    edits = {artifact.path: find_hand_edit(artifact) for artifact in artifacts}
    problems = [edit.problem(a.plan.config.location.file) for a in artifacts if (edit := edits[a.path]) is not None]
    if problems and not discard_edits:
        raise PatchgenError.from_problems(problems)
    texts = {path: edit.text for path, edit in edits.items() if edit is not None}
    copies = {path: copy_path(project, path, text) for path, text in texts.items()}
    written = write_files([*((copies[path], text) for path, text in texts.items()), *files])
    return written, copies


def list_patch_configs(project: Project | None = None) -> list[str]:
    """Dotted names of the project's config modules, in path order.

    Raises:
        PatchgenError: there is no project, or its ``search_root`` is no folder.
    """
    project = project or load_project()
    return [project.module_name(path) for path in project.find_configs()]


class ModelingCodeGenerator:
    """Generates the module of one config object, as it is now: whoever made it is not executed again.

    ``project`` is the one whose ruff settings to normalize with; by default that of the nearest ``pyproject.toml``
    with a ``[tool.patchgen]`` table above the config's file.
    """

    def __init__(self, config: PatchConfig, project: Project | None = None) -> None:
        self.config = config
        file = Path(config.location.file)
        self.project = project or load_project(file.parent if file.is_file() else Path.cwd())
        self.upstream: UpstreamModule | None = None
        self._sources = SourceCache()

    def load_source(self) -> str:
        """Find and read upstream's module; returns its text. A PatchgenError where there is no such module."""
        self.upstream = find_upstream(self.config.source_module, location=self.config.place_of("source_module"))
        return self._sources.get(self.upstream.path).text

    def generate(self, output_path: str | Path | None = None, *, discard_edits: bool = False) -> str:
        """The generated module, as ``patchgen`` would write it; written to ``output_path`` if that is given.

        ``discard_edits`` as in :func:`run_codegen`.

        Raises:
            PatchgenError: with everything that is wrong; then nothing was written.
        """
        loaded = self._loaded()
        [outcome] = make_outcomes(self.project, [loaded], self._sources)
        if outcome.artifact is None:
            raise PatchgenError.from_problems(outcome.problems)
        if output_path is not None:
            artifact = replace(outcome.artifact, path=Path(output_path).absolute())
            _write_over(self.project, [artifact], [(artifact.path, artifact.text)], discard_edits)
        return outcome.artifact.text

    def _loaded(self) -> LoadedConfig:
        """The config as if it had been loaded from the file that holds it; that file is read, and never executed."""
        path, name = self._home()
        for file, text in _interactive_sources(self.config).items():
            self._sources.put(file, text)
        self._refuse_hidden(path)
        own = {key: vars(module) for key, module in _modules_of(path)}
        module = self.project.module_name(path)
        return LoadedConfig(path, module, name, self.config, own, "imported", "it was passed as an object")

    def _refuse_hidden(self, path: Path) -> None:
        """An error where a file declares patches under ``TYPE_CHECKING``, for this config or one that it extends."""
        values = [value for _, module in _modules_of(path) for value in list(vars(module).values())]
        bases = [Path(value.location.file) for value in values if isinstance(value, PatchConfig)]
        targets = {patch.target for patch in self.config.patches}
        missing = []
        for file in filter(Path.is_file, dict.fromkeys([path, *bases])):
            owners = {name: value for _, module in _modules_of(file) for name, value in list(vars(module).items())}
            for name, target in hidden_patches(self._sources.get(file)):
                is_anothers = isinstance(owners.get(name), PatchConfig) and owners[name] is not self.config
                if target not in targets and not (is_anothers and file == path):
                    missing.append(f"'{target}'")
        if missing:
            message = f"this config lacks the patch of {', '.join(missing)} that its file declares"
            hint = "Code under TYPE_CHECKING is missing when a config is imported: use run_codegen."
            raise PatchgenError(message, self.config.location, hint)

    def _home(self) -> tuple[Path, str]:
        """The file and the variable that hold the config; where it was made when nothing does."""
        origin = self.config.location.file
        places = [
            (os.path.abspath(module.__file__ or ""), name)
            for module in list(sys.modules.values())
            if getattr(module, "__file__", None)
            for name, value in list(vars(module).items())
            if value is self.config
        ]
        places.sort(key=lambda place: (place[0] != origin, place[1] != DEFAULT_NAME, place))
        return (Path(places[0][0]), places[0][1]) if places else (Path(origin), DEFAULT_NAME)


def _modules_of(path: Path) -> list[tuple[str, ModuleType]]:
    """The imported modules, or the script, that a file is."""
    modules = ((key, module, getattr(module, "__file__", None)) for key, module in list(sys.modules.items()))
    return [(key, module) for key, module, file in modules if file and os.path.abspath(file) == str(path)]


def _interactive_sources(config: PatchConfig) -> dict[Path, str]:
    """What was typed into a notebook or an interpreter and is part of a config, by the names that stand for files."""
    definitions = [patch.replacement for patch in config.patches]
    definitions += [helper.definition for helper in (*config.helpers, *config.positioned_helpers)]
    functions = [part for d in definitions for part in (d, *(vars(d).values() if isinstance(d, type) else ()))]
    names = {part.__code__.co_filename for part in functions if isinstance(part, FunctionType)}
    texts = {name: "".join(linecache.getlines(name)) for name in names if not os.path.isfile(name)}
    return {Path(name): text for name, text in texts.items() if text}
