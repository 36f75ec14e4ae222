"""Configs with edits in the place of replacements that repeat upstream's text."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import libcst as cst

from patchgen_core.authoring.edits.config_file import Changes, ConfigFiles, EditedFile
from patchgen_core.authoring.edits.importers import Importers
from patchgen_core.authoring.edits.needed_imports import needed_names
from patchgen_core.authoring.edits.unused_imports import remove_unused_imports
from patchgen_core.authoring.rehearsal import rehearse
from patchgen_core.authoring.slim.edit_texts import edit_blocks
from patchgen_core.authoring.slim.function_edits import NoEdits, bound_names, find_edits
from patchgen_core.build.artifacts import make_outcomes
from patchgen_core.build.hand_edits import find_hand_edit
from patchgen_core.build.normalize import format_texts
from patchgen_core.build.results import Artifact
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.definitions import compare_code, read_definitions
from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.config.replacement import read_replacement
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.files import write_files
from patchgen_core.project.project import Project
from patchgen_core.syntax.nodes import FUNCTIONS, Function, methods
from patchgen_core.syntax.source import SourceCache, parse_source

_REPLACEMENTS = ("method_override", "function_replacement")
_MOST = 0.8
"""Edits that are longer than this part of a replacement are no gain."""


@dataclass(frozen=True)
class SlimPatch:
    """A replacement that edits can stand for; lines with its declaration, before and after."""

    target: str
    location: Location
    before: int
    after: int


@dataclass(frozen=True)
class Slimmed:
    """What became of one config file.

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
class _Candidate:
    patch: SlimPatch
    loaded: LoadedConfig
    node: cst.FunctionDef
    blocks: tuple[str, ...]
    text: str


def slim(selection: Selection, dry_run: bool = False) -> list[Slimmed]:
    """Write replacements as edits where the config still makes the same code, and generate the files anew.

    Raises:
        PatchgenError: a config does not generate, a generated file was edited by hand, or a file cannot be written.
            Nothing was written then.
    """
    project, sources = selection.project, SourceCache()
    loader = Loader(project, sources)
    uses = Counter(_places(project, loader))
    results, texts = list[Slimmed](), dict[Path, str]()
    for path in selection.find_configs():
        slimmer = _Slimmer(project, loader.load(path, selection.name), sources, uses)
        result, files = slimmer.slim(path)
        results.append(result)
        texts |= files
    if not dry_run:
        write_files(texts.items())
    return results


def _places(project: Project, loader: Loader) -> Iterator[Location]:
    """Where each definition stands that a patch or helper of the project is, as often as it is one."""
    for path in project.find_configs():
        try:
            configs = loader.load(path)
        except PatchgenError:  # the gate tells
            continue
        for loaded in configs:
            config = loaded.config
            definitions = [patch.replacement for patch in config.patches]
            definitions += [helper.definition for helper in (*config.helpers, *config.positioned_helpers)]
            for definition in definitions:
                try:
                    yield read_replacement(definition, loader.sources, loaded.modules, config.location).location
                except (PatchgenError, AttributeError):
                    continue


class _Slimmer:
    """Slims the configs of one file."""

    def __init__(
        self, project: Project, configs: Sequence[LoadedConfig], sources: SourceCache, uses: Counter[Location]
    ) -> None:
        self.project, self.configs, self.sources, self.uses = project, configs, sources, uses
        self.files = ConfigFiles()
        self.artifacts = {loaded.label: self._artifact(loaded) for loaded in configs}

    def _artifact(self, loaded: LoadedConfig) -> Artifact:
        [outcome] = make_outcomes(self.project, [loaded], self.sources)
        if outcome.artifact is None:
            raise PatchgenError.from_problems(outcome.problems)
        edit = find_hand_edit(outcome.artifact)
        if edit is not None:
            raise PatchgenError.from_problems([edit.problem(str(loaded.path))])
        return outcome.artifact

    def slim(self, path: Path) -> tuple[Slimmed, dict[Path, str]]:
        """What becomes of the file, and the texts that are to be written."""
        candidates, left = list[_Candidate](), list[str]()
        for loaded in self.configs:
            for planned in self.artifacts[loaded.label].plan.patches:
                try:
                    candidate = self._candidate(path, loaded, planned)
                except (NoEdits, PatchgenError) as reason:
                    left.append(f"{planned.patch.target}: {reason}")
                else:
                    candidates += [candidate] if candidate is not None else []
        chosen, made = self._settle(path, candidates, left)
        if not chosen:
            return Slimmed(path, left=tuple(left)), {}
        texts = {path: self._rewrite(path, chosen).encoded}
        for artifact in made:
            texts |= dict(artifact.output())
        return Slimmed(path, tuple(c.patch for c in chosen), tuple(left), tuple(texts)), texts

    # --- candidates --------------------------------------------------------------------------------

    def _candidate(self, path: Path, loaded: LoadedConfig, planned: PlannedPatch) -> _Candidate | None:
        """Edits in the place of a replacement; None for a patch that is none, or that they make no shorter.

        Raises:
            NoEdits: why edits cannot say it.
        """
        patch, replacement = planned.patch, planned.replacement
        if patch.kind not in _REPLACEMENTS or replacement is None or planned.added:
            return None
        function = _edited_function(planned)
        node = self._declared_at(path, replacement.location.line) if replacement.location.file == str(path) else None
        if function is None:
            return None
        new = parse_source(path, f"{replacement.text}\n")
        plan = self.artifacts[loaded.label].plan
        if _decorators(function) != list(replacement.decorators) and (
            patch.kind == "function_replacement" or replacement.decorators or not patch.keep_decorators
        ):
            raise NoEdits("its decorators are others than upstream's")
        options = [f'description="{patch.description}"'] if patch.description else []
        edits = find_edits(plan.source, function, new)
        names = bound_names(function, new)
        blocks = edit_blocks(edits, loaded.name, patch.target, replacement.name, options, names)
        blocks = format_texts(blocks, path.parent, self.project)
        before, after = replacement.text.count("\n") + 2, sum(block.count("\n") for block in blocks)
        if after > before * _MOST or not blocks:
            return None
        if node is None:
            raise NoEdits(f"its replacement is declared at {replacement.location}, by another call")
        if self.uses[replacement.location] > 1 or self._is_used(path, replacement.name):
            raise NoEdits("other patches share its replacement")
        location = Location(str(path), replacement.location.line)
        return _Candidate(
            SlimPatch(patch.target, location, before, after), loaded, node, tuple(blocks), replacement.text
        )

    def _declared_at(self, path: Path, line: int) -> cst.FunctionDef | None:
        """The function whose ``def`` stands on a line, if one decorator declares one patch of it."""
        file = self.files.get(path)
        for node, position in file.positions.items():
            if isinstance(node, cst.FunctionDef) and position.start.line == line:
                return node if len(node.decorators) == 1 else None
        return None

    def _is_used(self, path: Path, name: str) -> bool:
        """Whether a file or others have another use for the name of a replacement."""
        names = (node.id for node in ast.walk(self.sources.get(path).tree) if isinstance(node, ast.Name))
        return name in names or Importers(self.project, path).may_use(name)

    # --- what is written ---------------------------------------------------------------------------

    def _settle(
        self, path: Path, candidates: Sequence[_Candidate], left: list[str]
    ) -> tuple[list[_Candidate], list[Artifact]]:
        """The candidates with which all configs of the file make the same code, and what they make."""
        chosen, made = list(candidates), self._make(path, candidates)
        if not candidates or isinstance(made, list):
            return chosen, made if isinstance(made, list) else []
        chosen, result = [], list[Artifact]()
        for candidate in candidates:
            made = self._make(path, [*chosen, candidate])
            if isinstance(made, list):
                chosen.append(candidate)
                result = made
            else:
                left.append(f"{candidate.patch.target}: {made}")
        return chosen, result

    def _make(self, path: Path, candidates: Sequence[_Candidate]) -> list[Artifact] | str:
        """What the configs make with candidates; why one does not, or makes other code."""
        if not candidates:
            return []
        files = {path: self._rewrite(path, candidates)}
        artifacts = []
        for loaded in self.configs:
            made = rehearse(self.project, loaded, self.sources, files)
            if isinstance(made, str):
                return made
            before, after = (read_definitions(a.text) for a in (self.artifacts[loaded.label], made))
            if changes := compare_code(before, after):
                return f"the code would not be the same: {changes}"
            artifacts.append(made)
        return artifacts

    def _rewrite(self, path: Path, candidates: Iterable[_Candidate]) -> EditedFile:
        file = self.files.get(path)
        changes: Changes = {c.node: _Statements(c.blocks) for c in candidates}
        edited = file.changed(changes)
        texts = [candidate.text for candidate in candidates]
        names = {name for text in texts for names in needed_names(text) for name in names}
        module = remove_unused_imports(edited.module, names, Importers(self.project, path).may_use)
        return replace(edited, module=module)


@dataclass(frozen=True)
class _Statements:
    """Puts declarations into the place of one, below the comments above it."""

    blocks: tuple[str, ...]

    def __call__(self, updated: Any) -> cst.FlattenSentinel[cst.BaseStatement]:
        statements: list[cst.BaseStatement] = []
        previous = ""
        for block in self.blocks:
            [statement] = cst.parse_module(block).body
            gap = [cst.EmptyLine(indent=False)] * (2 if "@" in (block[0], previous[:1]) else 1)
            lines = gap if statements else updated.leading_lines
            statements.append(statement.with_changes(leading_lines=lines))
            previous = block
        return cst.FlattenSentinel(statements)


def _edited_function(planned: PlannedPatch) -> Function | None:
    """Upstream's own text of what a patch replaces; None where it has none, or several."""
    if len(planned.nodes) != 1:
        return None
    [node] = planned.nodes
    if not planned.method:
        return node if isinstance(node, FUNCTIONS) else None
    functions = methods(node, planned.method, planned.accessor)
    return functions[0] if len(functions) == 1 else None


def _decorators(function: Function) -> list[str]:
    return [f"@{ast.unparse(decorator)}" for decorator in function.decorator_list]
