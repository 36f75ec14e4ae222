"""From a model type to its folder: a config, what goes beside it, and the generated module."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.authoring.new.file_texts import FileTexts, config_text, converter_text, init_text, plan_text
from patchgen_core.authoring.new.model_types import ModelTypes
from patchgen_core.authoring.new.module import UpstreamSource
from patchgen_core.authoring.new.patch_search import find_patches, find_plan_and_layout, read_upstream
from patchgen_core.authoring.new.patches import ModulePatches, NewPatch, Unpatched
from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.normalize import RawText, normalize
from patchgen_core.build.results import Artifact
from patchgen_core.build.selection import Selection
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.config.loading import Loader
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.files import read_text, write_files
from patchgen_core.project.project import CONFIG_SUFFIX, Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upstream.module import find_upstream

_MOST_ROUNDS = 6


@dataclass(frozen=True)
class NewResult:
    """What was written for a model type, or would be.

    Attributes:
        upstream: the module that the config is for.
        files: every file with its text, in the order to show them.
        left: what stays upstream's, with the reason.
        errors, warnings: what the contract rules find in the generated module.
        written: the files that changed on disk.
        diff: upstream against the generated module.
    """

    model_type: str
    upstream: str
    config: Path
    files: tuple[tuple[Path, str], ...]
    patches: tuple[NewPatch, ...]
    left: tuple[Unpatched, ...]
    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    written: tuple[Path, ...]
    diff: str


def create_new(
    project: Project, model_type: str, *, force: bool = False, generate: bool = True, dry_run: bool = False
) -> NewResult:
    """Write the first patch config of a model type, its folder and its registration.

    Only transformers' text is read: neither it nor torch is imported. The config is generated before anything is
    written, and a patch that a contract rule objects to is taken out and told with the rest that is left.

    Args:
        project: gets the folder, below its search root.
        model_type: as ``config.json`` has it, such as ``granite``.
        force: write over files that are there.
        generate: write the generated module and its diff as well.

    Raises:
        PatchgenError: there is no such model type, nothing of it can be patched, or its folder has a file already.
    """
    sources = SourceCache()
    types = ModelTypes(sources, project.import_roots)
    upstream = read_upstream(types, types.find(model_type))
    drafted = _draft(project, types, upstream)
    if drafted.artifact is None:
        raise PatchgenError.from_problems(drafted.problems)
    files = [*drafted.files, *(drafted.artifact.files if generate else ())]
    if not dry_run:
        _check_free([path for path, _ in files], force)
    written = [] if dry_run else write_files(files)
    return NewResult(
        model_type,
        upstream.model.module,
        drafted.config,
        tuple(files),
        tuple(drafted.module_patches.patches),
        tuple(drafted.module_patches.left),
        drafted.problems,
        drafted.warnings,
        tuple(written),
        drafted.artifact.diff,
    )


@dataclass(frozen=True)
class _NewFiles:
    """Texts that are written nowhere yet, and what the generator and the contract rules say of them."""

    config: Path
    module_patches: ModulePatches
    files: tuple[tuple[Path, str], ...]
    artifact: Artifact | None
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def _draft(project: Project, types: ModelTypes, upstream: UpstreamSource) -> _NewFiles:
    """The texts for a model type, without the patches that the generator or a rule objects to."""
    name = upstream.model.identifier
    config = project.search_root / name / f"{name}_gpu{CONFIG_SUFFIX}"
    package = project.module_name(config).rpartition(".")[0]
    release = find_upstream(upstream.model.module, project.import_roots)
    objections: dict[str, Unpatched] = {}
    for number in range(_MOST_ROUNDS):
        module_patches, auto_parts = find_patches(types, upstream, frozenset(objections))
        module_patches.left += objections.values()
        if not module_patches.patches:
            raise _nothing(upstream.model.name, upstream.model.module, module_patches.left)
        plan, stored = find_plan_and_layout(types, upstream, module_patches, auto_parts)
        written = FileTexts(upstream, module_patches, package, plan, stored, release)
        files = _format(project, _files(written, config))
        draft = _NewFiles(
            config, module_patches, tuple(files), *_generate(project, types.sources, config, dict(files)[config])
        )
        more = _objections(module_patches.patches, (*draft.problems, *draft.warnings), dict(files)[config])
        if not more or number == _MOST_ROUNDS - 1:
            break
        objections.update(more)
    return draft


def _files(written: FileTexts, config: Path) -> list[tuple[Path, str]]:
    folder = config.parent
    files = [(config, config_text(written)), (folder / "__init__.py", init_text(written))]
    if written.has_converter:
        files.append((folder / "checkpoint_tensor_converter.py", converter_text(written)))
    if written.plan is not None:
        files.append((folder / "parallel_plan.py", plan_text(written)))
    return files


def _format(project: Project, files: Sequence[tuple[Path, str]]) -> list[tuple[Path, str]]:
    texts = normalize([RawText(path, text) for path, text in files], project)
    return [(path, text.text) for (path, _), text in zip(files, texts)]


def _generate(
    project: Project, sources: SourceCache, config: Path, text: str
) -> tuple[Artifact | None, tuple[Problem, ...], tuple[Problem, ...]]:
    """What a config makes that is not written yet; errors, and warnings of the contract rules."""
    sources.put(config, text)
    [outcome] = make_artifacts(Selection(project, (config,)), Loader(project, sources))
    if outcome.artifact is None:
        return None, tuple(outcome.problems), ()
    verdict = Contracts(project, sources).examine(outcome.artifact, config)
    return outcome.artifact, tuple(verdict.errors), tuple(verdict.warnings)


def _objections(patches: Sequence[NewPatch], problems: Sequence[Problem], text: str) -> dict[str, Unpatched]:
    """The patches that problems are about, by the line of the config that declares each."""
    starts = dict(_declared(text))
    by_target = {patch.target: patch for patch in patches}
    objections: dict[str, Unpatched] = {}
    for problem in problems:
        line = problem.location.line if problem.location is not None else 0
        above = [number for number in starts if number <= line]
        patch = by_target.get(starts[max(above)]) if above else None
        if patch is not None:
            objections.setdefault(patch.target, Unpatched(patch.target, problem.title.rstrip("."), "rule"))
    return objections


def _declared(text: str) -> Iterator[tuple[int, str]]:
    """The targets that a config declares, each with the line where that begins."""
    for node in ast.walk(ast.parse(text)):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and called in ("config.override_method", "config.replace_function"):
            yield node.lineno, str(ast.literal_eval(node.args[0]))


def _check_free(paths: Sequence[Path], force: bool) -> None:
    there = [path for path in paths if read_text(path) is not None]
    if there and not force:
        hint = "Pass --force to write over it." if len(there) == 1 else "Pass --force to write over all of them."
        problems = [Problem("there is a file already", Location(str(path)), hint) for path in there]
        raise PatchgenError.from_problems(problems)


def _nothing(model_type: str, module: str, left: Sequence[Unpatched]) -> PatchgenError:
    reasons = [f"{entry.name}: {entry.reason}." for entry in left]
    hint = "\n  ".join(["What was looked at:", *reasons]) if reasons else ""
    hint = hint or "It has no RMSNorm, gated MLP, rotary function, experts or language modeling loss that a slot fits."
    return PatchgenError(f"nothing of '{module}' fits an op slot, so there is no config to write", hint=hint)
