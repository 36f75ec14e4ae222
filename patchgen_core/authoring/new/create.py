"""From a model type to its folder: a config, what goes beside it, and the generated module."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.authoring.generated_config import GeneratedConfig, generate_config
from patchgen_core.authoring.new.file_texts import FileTexts, config_text, converter_text, init_text, plan_text
from patchgen_core.authoring.new.model_types import ModelTypes
from patchgen_core.authoring.new.module import UpstreamSource
from patchgen_core.authoring.new.patch_search import find_patches, find_plan_and_layout, read_upstream
from patchgen_core.authoring.new.patches import ModulePatches, NewPatch, Unpatched
from patchgen_core.authoring.slim.slim import slim_new
from patchgen_core.authoring.type_imports.complete import complete_new_config
from patchgen_core.build.normalize import RawText, normalize
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
        force: overwrite existing files.
        generate: write the generated module and its diff as well.

    Raises:
        PatchgenError: there is no such model type, nothing of it can be patched, or its folder has a file already.
    """
    sources = SourceCache()
    types = ModelTypes(sources, project.import_roots)
    upstream = read_upstream(types, types.find(model_type))
    name = upstream.model.identifier
    config = project.search_root / name / f"{name}_gpu{CONFIG_SUFFIX}"
    module_patches, raw_texts = _write_accepted_texts(project, types, upstream, config, sources)
    texts = [(raw.path, new.text) for raw, new in zip(raw_texts, normalize(raw_texts, project))]
    texts[0] = (config, complete_new_config(project, config, texts[0][1]))
    sources.put(*texts[0])
    generated = generate_config(Loader(project, sources), config)
    if generated.artifact is None:
        raise PatchgenError.from_problems(generated.errors)
    files = (*texts, *(generated.artifact.files if generate else ()))
    if not dry_run:
        _check_free([path for path, _ in files], force)
    return NewResult(
        model_type,
        upstream.model.module,
        config,
        files,
        tuple(module_patches.patches),
        tuple(module_patches.left),
        generated.errors,
        generated.warnings,
        () if dry_run else tuple(write_files(files)),
        generated.artifact.diff,
    )


def _write_accepted_texts(
    project: Project, types: ModelTypes, upstream: UpstreamSource, config: Path, sources: SourceCache
) -> tuple[ModulePatches, list[RawText]]:
    """What can be patched and no contract rule objects to, and the raw texts, with edits in the config's."""
    objections: dict[str, Unpatched] = {}
    for _ in range(_MOST_ROUNDS):
        module_patches, raw_texts = _write_texts(project, types, upstream, config, objections)
        sources.put(config, raw_texts[0].text)
        generated = generate_config(Loader(project, sources), config)
        more = _objections(module_patches.patches, generated, raw_texts[0].text)
        if not more:
            break
        objections.update(more)
    if generated.artifact is not None:
        raw_texts[0] = RawText(config, slim_new(project, sources, config))
    return module_patches, raw_texts


def _write_texts(
    project: Project, types: ModelTypes, upstream: UpstreamSource, config: Path, objections: Mapping[str, Unpatched]
) -> tuple[ModulePatches, list[RawText]]:
    """What can be patched and nothing objects to, and the texts of the config and of what goes beside it, raw."""
    module_patches, auto_parts = find_patches(types, upstream, objections)
    if not module_patches.patches:
        raise _nothing(upstream.model.module, module_patches.left)
    plan, layout = find_plan_and_layout(types, upstream, module_patches, auto_parts)
    package = project.module_name(config).rpartition(".")[0]
    release = find_upstream(upstream.model.module, project.import_roots)
    texts = FileTexts(upstream, module_patches, package, plan, layout, release)
    files = [RawText(config, config_text(texts)), RawText(config.parent / "__init__.py", init_text(texts))]
    if texts.has_converter:
        files.append(RawText(config.parent / "checkpoint_tensor_converter.py", converter_text(texts)))
    if plan is not None:
        files.append(RawText(config.parent / "parallel_plan.py", plan_text(texts.title, plan)))
    return module_patches, files


def _objections(patches: Sequence[NewPatch], generated: GeneratedConfig, text: str) -> dict[str, Unpatched]:
    """The patches that problems are about, by the line of the config that declares each."""
    starts = dict(_declared(text))
    by_target = {patch.target: patch for patch in patches}
    objections: dict[str, Unpatched] = {}
    for problem in (*generated.errors, *generated.warnings):
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
        hint = "Pass --force to overwrite it." if len(there) == 1 else "Pass --force to overwrite all of them."
        problems = [Problem("there is already a file", Location(str(path)), hint) for path in there]
        raise PatchgenError.from_problems(problems)


def _nothing(module: str, left: Sequence[Unpatched]) -> PatchgenError:
    reasons = [f"{entry.name}: {entry.reason}." for entry in left]
    hint = "\n  ".join(["These were examined:", *reasons]) if reasons else ""
    hint = hint or "It has no RMSNorm, gated MLP, rotary function, experts or language modeling loss that a slot fits."
    return PatchgenError(f"nothing of '{module}' fits an op slot, so there is no config to write", hint=hint)
