"""From a generated file that somebody edited to patches of its config that make the same."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import libcst as cst

from patchgen_core.authoring.absorb.config_edits import ConfigEdit, ConfigEditor, make_edits
from patchgen_core.authoring.absorb.module_changes import Change, DefinitionChange, StatementChange, find_changes
from patchgen_core.authoring.edits.config_file import Changes, ConfigFiles, EditedFile
from patchgen_core.authoring.edits.imports import add_imports
from patchgen_core.authoring.edits.needed_imports import missing_imports, needed_names
from patchgen_core.authoring.rehearsal import rehearse
from patchgen_core.build.artifacts import make_outcomes
from patchgen_core.build.hand_edits import HandEdit, find_hand_edit
from patchgen_core.build.normalize import format_texts
from patchgen_core.build.results import Artifact, Outcome
from patchgen_core.build.selection import Selection
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.config.replacement import read_replacement
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.files import write_files
from patchgen_core.project.project import Project
from patchgen_core.syntax.index import bound_name
from patchgen_core.syntax.source import SourceCache, SourceFile, parse_source


@dataclass(frozen=True)
class Absorbed:
    """What became of the edits of one generated file.

    Attributes:
        changes: what the config declares now, each with how: ``Qwen3MLP.forward: overridden``. Below them what a
            patch that several targets share changes beside what was edited.
        left: changes that it does not declare, each with the reason. The generated file keeps all edits then.
        written: files that were written, or would be.
        others: configs that share what was edited, and were not generated anew.
    """

    config: str
    path: Path
    generated: Path
    changes: tuple[str, ...] = ()
    left: tuple[Problem, ...] = ()
    written: tuple[Path, ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class AbsorbPlan:
    """What became of the edits of generated files, and the texts of the files that are to be written."""

    absorbed: tuple[Absorbed, ...]
    files: Mapping[Path, str]


def absorb(selection: Selection, dry_run: bool = False) -> list[Absorbed]:
    """Make patches of what was edited by hand in the modules of configs, and generate these anew.

    An edit inside of what a patch makes changes the patch; any other becomes a patch of its own. Everything is
    generated before anything is written: an edit that the config then would not make the same code of is left.

    Raises:
        PatchgenError: a config does not generate; what was edited in a file cannot be told; or a file cannot be
            written. Nothing was written then.
    """
    plan = plan_absorb(selection)
    if not dry_run:
        write_files(plan.files.items())
    return list(plan.absorbed)


def plan_absorb(selection: Selection) -> AbsorbPlan:
    """What absorbing would write.

    Raises:
        PatchgenError: a config does not generate, or what was edited in a file cannot be told.
    """
    project = selection.project
    loader = Loader(project, SourceCache())
    absorbed, files = list[Absorbed](), dict[Path, str]()
    for path in selection.find_configs():
        for loaded in loader.load(path, selection.name):
            result = _absorb_one(project, loaded, loader.sources)
            if result is not None:
                absorbed.append(result[0])
                files |= result[1]
    return AbsorbPlan(tuple(absorbed), files)


def _absorb_one(
    project: Project, loaded: LoadedConfig, sources: SourceCache
) -> tuple[Absorbed, dict[Path, str]] | None:
    """What becomes of one config, and the texts of its files; None where nothing was edited."""
    artifact = _artifact(make_outcomes(project, [loaded], sources)[0])
    edit = find_hand_edit(artifact)
    if edit is None:
        return None
    rehearsal = _Rehearsal(project, loaded, artifact, edit, sources)
    edits, left = make_edits(rehearsal.changes, rehearsal.editor.edit)
    edits, more, made = rehearsal.settle(edits)
    problems = [_left(artifact.path, change, reason) for change, reason in (*left, *more)]
    if not problems:
        problems += _lost_comments(rehearsal, made or artifact)
    texts = {path: file.encoded for path, file in rehearsal.rewrite(edits).items()}
    if not problems:
        texts |= dict((made or artifact).output())
    changes = [f"{_name(edit.change)}: {edit.word}" for edit in edits]
    if made is not None:
        changes += [f"{name}: changed as well, by the same patch" for name in rehearsal.changed_as_well(made)]
    others = tuple(_find_sharers(project, loaded, {edit.place for edit in edits if edit.place}))
    result = Absorbed(loaded.label, loaded.path, artifact.path, tuple(changes), tuple(problems), tuple(texts), others)
    return result, texts


def _lost_comments(rehearsal: _Rehearsal, made: Artifact) -> Iterator[Problem]:
    """The comments that were written beside what patches copy."""
    known = [Counter(text for _, text in _comments(text)) for text in (made.text, rehearsal.written.text)]
    counts = known[0] | known[1]
    lines = [line for line, _ in _comments(rehearsal.edited.text)]
    for place, (line, text) in enumerate(_comments(rehearsal.laid_out.text)):
        line = lines[place] if place < len(lines) else line
        counts[text] -= 1
        if counts[text] < 0:
            message = (
                f"'{text}' is between definitions, where no patch can put it: move it into one, or into the config"
            )
            yield Problem(message, Location(str(made.path), line))


def _comments(text: str) -> list[tuple[int, str]]:
    """The comments below the header of a generated module, with their lines."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    begin = next((i for i, token in enumerate(tokens) if token.type not in (tokenize.COMMENT, tokenize.NL)), 0)
    return [(token.start[0], token.string) for token in tokens[begin:] if token.type == tokenize.COMMENT]


def _find_sharers(project: Project, loaded: LoadedConfig, places: set[Location]) -> Iterator[str]:
    """The labels of other configs whose patches or helpers are definitions that stand at some places."""
    loader = Loader(project, SourceCache())
    for path in project.find_configs() if places else ():
        try:
            configs = [other for other in loader.load(path) if other.label != loaded.label]
        except PatchgenError:  # the gate tells
            continue
        yield from (
            other.label for other in configs if any(place in places for place in _list_places(other, loader.sources))
        )


def _list_places(loaded: LoadedConfig, sources: SourceCache) -> Iterator[Location]:
    """Where the definitions stand that a config copies."""
    config = loaded.config
    definitions = [patch.replacement for patch in config.patches]
    definitions += [helper.definition for helper in (*config.helpers, *config.positioned_helpers)]
    for definition in definitions:
        with suppress(PatchgenError, AttributeError):
            yield read_replacement(definition, sources, loaded.modules, config.location).location


def _artifact(outcome: Outcome) -> Artifact:
    if outcome.artifact is None:
        raise PatchgenError.from_problems(outcome.problems)
    return outcome.artifact


def _name(change: Change) -> str:
    if isinstance(change, DefinitionChange):
        return change.name
    return change.text.partition("\n")[0]


def _left(path: Path, change: Change, reason: str) -> Problem:
    return Problem(f"{_name(change)}: {reason}", Location(str(path), change.line))


class _Rehearsal:
    """A config, the edits of what it made, and what it makes with these declared."""

    def __init__(
        self, project: Project, loaded: LoadedConfig, artifact: Artifact, edit: HandEdit, sources: SourceCache
    ) -> None:
        self.project, self.loaded, self.artifact, self.sources = project, loaded, artifact, sources
        if edit.written is None:
            hint = "The .diff that belongs to the file shows it: is it in the repository's history?"
            raise PatchgenError(
                "the hand edits are unknown: the config now makes something else",
                Location(str(artifact.path)),
                hint,
            )
        self.edited = parse_source(artifact.path, edit.text.replace("\r\n", "\n"))
        self.written = parse_source(artifact.path, edit.written)
        self.files = ConfigFiles()
        self.editor = ConfigEditor(project, loaded, artifact.plan, self.files, sources)

    @cached_property
    def changes(self) -> list[Change]:
        """What was edited and the config does not make yet."""
        wanted = _keys(self._differences(self.artifact.text))
        lines = {_key(change): change.line for change in self._changes(self.written, self.edited)}
        changes = (change for change in self._changes(self.written, self.laid_out) if _key(change) in wanted)
        return [replace(change, line=lines.get(_key(change), change.line)) for change in changes]

    @cached_property
    def laid_out(self) -> SourceFile:
        """The edited file in the layout of what is generated, which nobody types."""
        (text,) = format_texts([self.edited.text], self.artifact.path.parent, self.project)
        return parse_source(self.artifact.path, text)

    def _changes(self, old: SourceFile, new: SourceFile) -> list[Change]:
        plan = self.artifact.plan
        units = {planned.patch.target for planned in plan.patches if planned.kind == "class_replacement"}
        return find_changes(old, new, units | {helper.name for helper in plan.helpers})

    def _differences(self, text: str) -> list[Change]:
        """How the edited file differs from what a config makes."""
        return self._changes(parse_source(self.artifact.path, text), self.laid_out)

    def changed_as_well(self, made: Artifact) -> list[str]:
        """The definitions that nobody edited and that the config makes otherwise now, as those that share a patch."""
        edited, path = _keys(self.changes), self.artifact.path
        changes = self._changes(parse_source(path, self.artifact.text), parse_source(path, made.text))
        others = (change for change in changes if _key(change) not in edited)
        return [change.name for change in others if isinstance(change, DefinitionChange) and change.kind == "changed"]

    def settle(
        self, edits: Sequence[ConfigEdit]
    ) -> tuple[list[ConfigEdit], list[tuple[Change, str]], Artifact | None]:
        """The edits with which the config makes what was edited, why the others are left, and what it makes."""
        chosen, left = list[ConfigEdit](), list[tuple[Change, str]]()
        at_once = self._make(edits)
        if isinstance(at_once, Artifact) and not self._unmet(edits, at_once):
            return list(edits), left, at_once
        artifact: Artifact | None = None
        for edit in edits:
            reason = ""
            for way in self._ways(edit):
                outcome = self._make([*chosen, way])
                if isinstance(outcome, Artifact) and not self._unmet([way], outcome):
                    chosen.append(way)
                    artifact = outcome
                    break
                reason = reason or _why_not(edit.change, outcome)
            else:
                left.append((edit.change, reason))
        return chosen, left, artifact

    def _ways(self, edit: ConfigEdit) -> Iterator[ConfigEdit]:
        """An edit, and in place of edits of upstream's function all of what it is now: edits make no annotations."""
        yield edit
        change = edit.change
        if isinstance(change, DefinitionChange) and change.kind == "changed" and not edit.texts:
            yield self.editor.replace(change)

    def _unmet(self, edits: Iterable[ConfigEdit], made: Artifact) -> set[str]:
        return _keys(self._differences(made.text)) & _keys(edit.change for edit in edits)

    def _make(self, edits: Sequence[ConfigEdit]) -> Artifact | str:
        """What the config makes with edits, or why it makes nothing."""
        try:
            files = self.rewrite(edits)
        except PatchgenError as error:
            return error.problems[0].message
        return rehearse(self.project, self.loaded, self.sources, files)

    def rewrite(self, edits: Sequence[ConfigEdit]) -> dict[Path, EditedFile]:
        """The files of the config with edits."""
        changes: dict[Path, Changes] = {}
        for edit in edits:
            for path, of_file in edit.texts.items():
                changes[path] = {**changes.get(path, {}), **of_file}
        files = {path: self.files.get(path).changed(of_file) for path, of_file in changes.items()}
        blocks = [edit for edit in edits if edit.block]
        if blocks:
            path = self.loaded.path
            texts = format_texts([edit.block for edit in blocks], path.parent, self.project)
            files[path] = _with_blocks(files.get(path, self.files.get(path)), texts)
        for path, file in files.items():
            codes = [edit.code for edit in edits if edit.code and (path in edit.texts or not edit.texts)]
            files[path] = self._with_imports(file, codes)
        return files

    def _with_imports(self, file: EditedFile, codes: Collection[str]) -> EditedFile:
        """A file with the imports that definitions need while it is loaded."""
        plan, source = self.artifact.plan, self.sources.get(file.path)
        needs = [need for code in codes for need in missing_imports(code, source, plan.source, plan.upstream)]
        early = {name for code in codes for name in needed_names(code)[0]}
        needed = [need for need in dict.fromkeys(needs) if _bound(need) in early]
        return replace(file, module=add_imports(file.module, needed, early)) if needed else file


def _why_not(change: Change, made: Artifact | str) -> str:
    if isinstance(made, str):
        return f"with it the config does not generate: {made}"
    statement = change.statement if isinstance(change, StatementChange) else None
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        used = {node.id for node in ast.walk(ast.parse(made.text)) if isinstance(node, ast.Name)}
        if not used & {bound_name(statement, alias) for alias in statement.names}:
            return "nothing uses it, and generated files have no such imports"
    return "the config would turn it into different code"


def _bound(statement: str) -> str:
    return statement.rpartition(" ")[2]


def _with_blocks(file: EditedFile, blocks: Iterable[str]) -> EditedFile:
    """A file with declarations at its end."""
    body = [*file.module.body]
    gap, previous = [cst.EmptyLine(indent=False)], ""
    for block in blocks:
        first, *others = cst.parse_module(block).body
        count = 2 if "@" in (block[0], previous[:1]) else 1
        body += [first.with_changes(leading_lines=gap * count), *others]
        previous = block
    return replace(file, module=file.module.with_changes(body=body))


def _key(change: Change) -> str:
    name = change.name if isinstance(change, DefinitionChange) else ast.unparse(change.statement)
    return f"{type(change).__name__} {name}"


def _keys(changes: Iterable[Change]) -> set[str]:
    return {_key(change) for change in changes}
