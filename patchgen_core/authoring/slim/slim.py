"""Configs with edits in the place of replacements that repeat upstream's text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.authoring.edits.config_file import Changes, ConfigFiles, EditedFile
from patchgen_core.authoring.edits.importers import Importers
from patchgen_core.authoring.edits.imports import add_imports
from patchgen_core.authoring.edits.needed_imports import needed_names
from patchgen_core.authoring.edits.unused_imports import remove_unused_imports
from patchgen_core.authoring.rehearsal import rehearse_all
from patchgen_core.authoring.slim.candidates import Candidate, Candidates
from patchgen_core.authoring.slim.parameters import NoEdits
from patchgen_core.authoring.slim.references import References
from patchgen_core.authoring.slim.uses import ProjectUses, Uses
from patchgen_core.authoring.type_imports.complete import complete_type_imports
from patchgen_core.build.results import Artifact
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.definitions import compare_code, read_definitions
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.files import write_files
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache


@dataclass(frozen=True)
class SlimPatch:
    """A replacement that edits can stand for; lines with its declaration, before and after."""

    targets: tuple[str, ...]
    location: Location
    before: int
    after: int


@dataclass(frozen=True)
class Slimmed:
    """What became of one file.

    Attributes:
        patches: replacements that are edits now.
        left: those that repeat upstream's text and stay, each ``target: reason``.
        written: the files that were written, or would be.
    """

    path: Path
    patches: tuple[SlimPatch, ...] = ()
    left: tuple[str, ...] = ()
    written: tuple[Path, ...] = ()


@dataclass(frozen=True)
class SlimPlan:
    """What is to be written.

    Attributes:
        configs: the new texts of configs, and of the files that they share replacements in.
        outputs: what they make then.
    """

    slimmed: tuple[Slimmed, ...]
    configs: Mapping[Path, str]
    outputs: Mapping[Path, str]


def slim(selection: Selection, dry_run: bool = False) -> list[Slimmed]:
    """Write replacements as edits where all configs that have them still make the same code; generate those anew.

    Raises:
        PatchgenError: a config does not generate, a generated file was edited by hand, or a file cannot be written.
            Nothing was written then.
    """
    plan = plan_slim(selection)
    if not dry_run:
        write_files({**plan.configs, **plan.outputs}.items())
    return list(plan.slimmed)


def plan_slim(selection: Selection, at: Location | None = None) -> SlimPlan:
    """What slimming would write, of the one replacement that stands at a place or of all.

    Raises:
        PatchgenError: a config does not generate, or a generated file was edited by hand.
    """
    loader = Loader(selection.project, SourceCache())
    paths = selection.find_configs()
    selected = [loaded for path in paths for loaded in loader.load(path, selection.name)]
    slimmer = _Slimmer(selection.project, loader, selected, ConfigFiles(), at=at)
    chosen, artifacts = slimmer.settle()
    configs = sorted({loaded.path for candidate in chosen for loaded in candidate.uses.configs})
    files = _complete(selection.project, configs, loader.sources, slimmer.rewrite(chosen))
    texts = {path: file.encoded for path, file in files.items()}
    outputs = dict(file for artifact in artifacts for file in artifact.output())
    by_path = {path: [c for c in chosen if c.path == path] for path in [*paths, *(c.path for c in chosen)]}
    written = {path: (*texts, *outputs) if number == 0 else () for number, path in enumerate(by_path)}
    slimmed = tuple(
        Slimmed(path, tuple(map(_patch, own)), tuple(slimmer.left.get(path, ())), written[path])
        for path, own in by_path.items()
    )
    return SlimPlan(slimmed, texts, outputs)


def _complete(
    project: Project, configs: Sequence[Path], sources: SourceCache, files: Mapping[Path, EditedFile]
) -> dict[Path, EditedFile]:
    """Files with the imports that type checkers need for what is left in them."""
    edited, config_files = sources.fork(), ConfigFiles()
    for path, file in files.items():
        edited.put(path, file.text)
        config_files.replace(file)
    changed = complete_type_imports(project, configs, edited, config_files)
    return {path: changed.get(path, file) for path, file in files.items()}


def slim_new(project: Project, sources: SourceCache, path: Path) -> str:
    """The text of a config that is not written yet, with edits for all replacements that repeat upstream's text.

    Args:
        sources: has its text.

    Raises:
        PatchgenError: it makes nothing.
    """
    files = ConfigFiles()
    files.put(path, sources.get(path).text)
    loader = Loader(project, sources)
    slimmer = _Slimmer(project, loader, loader.load(path), files, is_new=True)
    chosen, _ = slimmer.settle()
    return slimmer.rewrite(chosen)[path].text if chosen else sources.get(path).text


def _patch(candidate: Candidate) -> SlimPatch:
    targets = tuple(dict.fromkeys(use.planned.patch.target for use in candidate.uses.entries))
    return SlimPatch(targets, candidate.uses.location, candidate.before, candidate.after)


class _Slimmer:
    """Finds the replacements of some configs that edits can stand for, in all configs that have them."""

    def __init__(
        self,
        project: Project,
        loader: Loader,
        selected: Sequence[LoadedConfig],
        files: ConfigFiles,
        is_new: bool = False,
        at: Location | None = None,
    ) -> None:
        self.project, self.sources, self.files, self.at = project, loader.sources, files, at
        self.labels = {loaded.label for loaded in selected}
        self.uses = ProjectUses(project, loader, selected, is_new, Path(at.file) if at is not None else None)
        references = References(project, self.files, loader.sources)
        self.candidates = Candidates(project, self.uses, self.files, references, is_new)
        self.left: dict[Path, list[str]] = {}

    def settle(self) -> tuple[list[Candidate], list[Artifact]]:
        """The candidates with which all configs make the same code, and what these make."""
        alternatives = [entry for entry in map(self._alternatives, self._selected_uses()) if entry]
        chosen = [entry[0] for entry in alternatives]
        outcome = self._make(chosen)
        if not isinstance(outcome, str):
            return chosen, outcome
        chosen = [choice for entry in alternatives if (choice := self._first_right(entry)) is not None]
        outcome = self._make(chosen)
        return (chosen, outcome) if not isinstance(outcome, str) else self._settle_one_by_one(chosen)

    def _selected_uses(self) -> Iterator[Uses]:
        for uses in self.uses.uses.values():
            is_wanted = self.at is None or uses.location == self.at
            if is_wanted and any(use.loaded.label in self.labels for use in uses.entries):
                yield uses

    def _alternatives(self, uses: Uses) -> list[Candidate]:
        try:
            return self.candidates.make(uses)
        except (NoEdits, PatchgenError) as reason:
            self._leave(uses, str(reason))
            return []

    def _leave(self, uses: Uses, reason: str) -> None:
        use = next(use for use in uses.entries if use.loaded.label in self.labels)
        self.left.setdefault(use.loaded.path, []).append(f"{use.planned.patch.target}: {reason}")

    def _first_right(self, alternatives: Sequence[Candidate]) -> Candidate | None:
        """The first of several candidates for a replacement with which its configs make the same code."""
        reasons = []
        for candidate in alternatives:
            outcome = self._make([candidate])
            if not isinstance(outcome, str):
                return candidate
            reasons.append(outcome)
        self._leave(alternatives[0].uses, reasons[0])
        return None

    def _settle_one_by_one(self, candidates: Iterable[Candidate]) -> tuple[list[Candidate], list[Artifact]]:
        chosen, result = list[Candidate](), list[Artifact]()
        for candidate in candidates:
            outcome = self._make([*chosen, candidate])
            if isinstance(outcome, str):
                self._leave(candidate.uses, outcome)
            else:
                chosen.append(candidate)
                result = outcome
        return chosen, result

    def _make(self, candidates: Sequence[Candidate]) -> list[Artifact] | str:
        """What the configs make with candidates; why one does not, or makes other code."""
        configs = {loaded.label: loaded for c in candidates for loaded in c.uses.configs}
        if not configs:
            return []
        outcome = rehearse_all(self.project, list(configs.values()), self.sources, self.rewrite(candidates))
        if isinstance(outcome, str):
            return outcome
        for label, artifact in zip(configs, outcome, strict=True):
            before, after = (read_definitions(a.text) for a in (self.uses.artifacts[label], artifact))
            if changes := compare_code(before, after):
                return f"the code of {label} would not be the same: {changes}"
        return outcome

    def rewrite(self, candidates: Sequence[Candidate]) -> dict[Path, EditedFile]:
        """The files that declare candidates and take them."""
        files = {}
        for path in dict.fromkeys(path for candidate in candidates for path in candidate.changes):
            changes: Changes = {}
            for candidate in candidates:
                changes = {**changes, **candidate.changes.get(path, {})}
            own = [candidate for candidate in candidates if candidate.path == path]
            module = self.files.get(path).changed(changes).module
            if any(candidate.is_shared for candidate in own):
                module = add_imports(module, ["from patchgen import Edits"])
            names = {name for c in own for names in needed_names(c.text) for name in names}
            module = remove_unused_imports(module, names, Importers(self.project, path).may_use)
            files[path] = replace(self.files.get(path), module=module)
        return files
