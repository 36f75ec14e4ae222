"""What a config makes: the generated module and its diff."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from patchgen_core.build.inputs import InputReader, imported_modules, ruff_inputs, upstream_state
from patchgen_core.build.likely_texts import LikelyTexts
from patchgen_core.build.near_names import find_line_of_config, suggest_name
from patchgen_core.build.normalize import Complaint, Normalized, RawText, normalize
from patchgen_core.build.results import Artifact, Outcome, Progress
from patchgen_core.build.selection import Selection
from patchgen_core.codegen.edited_targets import upstream_names
from patchgen_core.codegen.generate import RawModule, absolute_upstream, generate
from patchgen_core.codegen.plan import Plan, make_plan
from patchgen_core.codegen.relative_imports import ImportPlaces
from patchgen_core.config.argument_lines import at_argument
from patchgen_core.config.input_recording import Input, input_name
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.errors import Location, NameHint, PatchgenError, Problem, display_path, excerpt
from patchgen_core.files import digest, read_text
from patchgen_core.project.project import Project
from patchgen_core.syntax.header import name_ruff, read_ruff, seal
from patchgen_core.syntax.source import SourceCache, SourceFile, parse_source
from patchgen_core.upstream.module import find_upstream

DANGLING, UNDEFINED = "PG203", "PG204"
"""The contract rules whose findings stop a generation, unless the config allows them."""


@dataclass(frozen=True)
class _Draft:
    """A config on its way: generated, not normalized yet. ``home`` decides how ruff treats it."""

    outcome: Outcome
    plan: Plan
    raw: RawModule
    home: Path
    sources: SourceCache


Meanwhile = Callable[[Outcome], object]


@dataclass(frozen=True)
class EarlierTexts:
    """What ruff made of texts, for who makes artifacts again and again: of upstream's by their hashes, and of modules'
    last versions."""

    bases: MutableMapping[str, str] = field(default_factory=dict)
    modules: LikelyTexts = field(default_factory=LikelyTexts)


def make_artifacts(
    selection: Selection,
    loader: Loader | None = None,
    progress: Progress | None = None,
    earlier: EarlierTexts | None = None,
    meanwhile: Meanwhile | None = None,
) -> list[Outcome]:
    """Load and generate configs, one outcome for each in the order of the files; nothing is written.

    A problem of one does not touch the others. A PatchgenError when there is no config, or ruff cannot run.

    Args:
        progress: is called with how many of how many config files are done.
        earlier: what ruff made of texts before; gets what it makes of these.
        meanwhile: is called, while ruff is at work for a single config, with what most likely comes of it.
    """
    loader = loader or Loader(selection.project, SourceCache())
    paths = selection.find_configs()
    entries: list[Outcome | _Draft] = []
    for number, path in enumerate(paths):
        entries += _draft(selection, path, loader)
        if progress is not None:
            progress(number + 1, len(paths))
    outcomes = _finish_drafts(selection, entries, earlier or EarlierTexts(), meanwhile)
    return [_at_arguments(outcome, loader.sources) for outcome in outcomes]


def make_outcomes(project: Project, configs: Iterable[LoadedConfig], sources: SourceCache) -> list[Outcome]:
    """Generate loaded configs against the project's ``upstream``, one outcome for each; nothing is written.

    A PatchgenError when ruff cannot run.
    """
    selection = Selection(project)
    outcomes = (_loaded_outcome(project, loaded) for loaded in configs)
    return _finish_drafts(selection, [_generate(selection, each, sources) for each in outcomes], EarlierTexts())


def _at_arguments(outcome: Outcome, sources: SourceCache) -> Outcome:
    """An outcome whose problems stand at the arguments that they name."""
    return replace(outcome, problems=tuple(at_argument(each, sources) for each in outcome.problems))


def _finish_drafts(
    selection: Selection,
    entries: list[Outcome | _Draft],
    earlier: EarlierTexts,
    meanwhile: Meanwhile | None = None,
) -> list[Outcome]:
    entries = _reject_collisions(entries)
    drafts = [entry for entry in entries if isinstance(entry, _Draft)]
    needing_diff = [draft for draft in drafts if selection.with_diffs or _has_diff(selection.project, draft)]
    bases = _Bases(selection.project, needing_diff, earlier.bases)
    finished = iter(_finish(selection.project, drafts, bases, earlier.modules, meanwhile))
    return [next(finished) if isinstance(entry, _Draft) else entry for entry in entries]


def load_outcomes(selection: Selection, path: Path, loader: Loader) -> list[Outcome]:
    """What a config file makes, as far as loading tells: labels and outputs, or why it does not load."""
    try:
        configs = loader.load(path, selection.name)
    except PatchgenError as error:
        return [Outcome(path, selection.project.module_name(path), problems=error.problems)]
    return [_loaded_outcome(selection.project, loaded) for loaded in configs]


def _loaded_outcome(project: Project, loaded: LoadedConfig) -> Outcome:
    folder, target = project.output_folder(loaded.path), loaded.config.target_file
    return Outcome(
        loaded.path,
        loaded.label,
        output=folder / target if isinstance(target, str) else None,
        line=loaded.config.location.line,
        loading=loaded.mode,
        loading_reason=loaded.reason,
        loaded=loaded,
    )


def _draft(selection: Selection, path: Path, loader: Loader) -> list[Outcome | _Draft]:
    project = selection.project
    with loader.sources.recording() as read:
        outcomes = load_outcomes(selection, path, loader)
        entries = [_generate(selection, outcome, loader.sources) for outcome in outcomes]
    files = {input_name(project, file): source.digest for file, source in read.items()}
    return [_with_inputs(project, entry, files) if isinstance(entry, _Draft) else entry for entry in entries]


def _with_inputs(project: Project, draft: _Draft, files: Mapping[str, str]) -> _Draft:
    assert draft.outcome.loaded is not None
    upstream, source, recorded = draft.plan.upstream, draft.plan.source, draft.outcome.loaded.inputs
    inputs: dict[Input, Any] = dict(recorded.states)
    own = input_name(project, source.path)
    inputs |= {("file", file): contents for file, contents in files.items() if file != own}
    inputs["upstream", upstream.module] = upstream_state(upstream, source.digest)
    return replace(draft, outcome=replace(draft.outcome, inputs=inputs, uncacheable=recorded.uncacheable))


def _generate(selection: Selection, outcome: Outcome, sources: SourceCache) -> Outcome | _Draft:
    loaded, project = outcome.loaded, selection.project
    if loaded is None:
        return outcome
    config, folder = loaded.config, project.output_folder(loaded.path)
    try:
        upstream = find_upstream(config.source_module, project.upstream, config.place_of("source_module"))
        package = project.module_name(folder / str(config.target_file)).rpartition(".")[0]
        places = ImportPlaces(package, project, sources, loaded.inputs.add)
        plan = make_plan(config, upstream, sources, loaded.modules, loaded.label, places)
        target = (selection.output or folder) / config.target_file
        for taken in (loaded.path, upstream.path):
            if os.path.realpath(target) == os.path.realpath(taken):
                message = f"the generated module would overwrite '{display_path(taken)}'"
                raise PatchgenError(
                    message, config.place_of("target_file"), "Choose another target_file or output folder."
                )
        return _Draft(replace(outcome, output=target), plan, generate(plan), folder / config.target_file, sources)
    except PatchgenError as error:
        return replace(outcome, problems=error.problems)


def _reject_collisions(entries: list[Outcome | _Draft]) -> list[Outcome | _Draft]:
    """Two configs that write one file are both an error."""
    owners: dict[str, list[_Draft]] = {}
    for entry in entries:
        if isinstance(entry, _Draft):
            owners.setdefault(_real_output(entry.outcome), []).append(entry)
    checked: list[Outcome | _Draft] = []
    for entry in entries:
        outcome = entry.outcome if isinstance(entry, _Draft) else entry
        others = [d for d in owners.get(_real_output(outcome), []) if d is not entry]
        if isinstance(entry, _Draft) and others:
            message = f"'{entry.plan.config.target_file}' is also written by {others[0].outcome.label}"
            place, hint = entry.plan.config.place_of("target_file"), "Give one of them another target_file."
            checked.append(replace(outcome, problems=(Problem(message, place, hint),)))
        else:
            checked.append(entry)
    return checked


def _real_output(outcome: Outcome) -> str:
    return os.path.realpath(outcome.output or "")


# --- normalizing -----------------------------------------------------------------------------------


def _finish(
    project: Project,
    drafts: Sequence[_Draft],
    bases: _Bases,
    likely: LikelyTexts,
    meanwhile: Meanwhile | None,
) -> list[Outcome]:
    """Normalize every draft in one batch, and upstream as the base of each diff that is sure to be needed."""
    if not drafts:
        return []
    texts = [RawText(draft.home, draft.raw.text) for draft in drafts]
    before = InputReader(project)
    imported = [imported_modules(draft.raw.text) if draft.outcome.inputs is not None else set() for draft in drafts]
    states = [_read_ruff_inputs(before, draft, names) for draft, names in zip(drafts, imported)]
    ahead = (lambda result: meanwhile(_finish_one(drafts[0], result, bases))) if meanwhile is not None else None
    normalized = normalize([*texts, *bases.raw_texts()], project, likely, ahead)
    bases.take(normalized[len(texts) :])
    after = InputReader(project)
    outcomes = [_finish_one(draft, result, bases) for draft, result in zip(drafts, normalized)]
    return [
        _with_ruff_inputs(outcome, draft, after, names, _read_ruff_inputs(after, draft, names) == state)
        for outcome, draft, names, state in zip(outcomes, drafts, imported, states)
    ]


def _has_diff(project: Project, draft: _Draft) -> bool:
    """Whether a diff belongs beside a module that is checked in, or is there."""
    output = draft.outcome.output
    return _keeps_diff(project, draft) or (output is not None and output.with_suffix(".diff").exists())


def _keeps_diff(project: Project, draft: _Draft) -> bool:
    return project.diffs and draft.outcome.output == draft.home


class _Bases:
    """Upstream's texts as the bases of diffs: those of some drafts, and any other when it is asked for."""

    def __init__(self, project: Project, drafts: Iterable[_Draft], texts: MutableMapping[str, str]) -> None:
        self.project, self._texts = project, texts
        self._keys: dict[tuple[Path, Path], tuple[Path, str]] = {}
        self._reader = InputReader(project)
        homes = ((draft, *self._key(draft)) for draft in drafts)
        self._missing = {
            key: RawText(home, absolute_upstream(draft.plan)) for draft, home, key in homes if key not in texts
        }

    def raw_texts(self) -> list[RawText]:
        """What is to be normalized with the modules."""
        return list(self._missing.values())

    def take(self, normalized: Iterable[Normalized]) -> None:
        """Note what became of these."""
        self._texts.update({key: result.text for key, result in zip(self._missing, normalized)})

    def read(self, draft: _Draft) -> str:
        """The base of a draft's diff; a PatchgenError where ruff cannot run."""
        home, key = self._key(draft)
        if key not in self._texts:
            self._texts[key] = normalize([RawText(home, absolute_upstream(draft.plan))], self.project)[0].text
        return self._texts[key]

    def _key(self, draft: _Draft) -> tuple[Path, str]:
        """Where upstream's text goes to ruff, and a hash of it and of what ruff sees beside it."""
        place = draft.plan.source.path, draft.home.parent
        if place not in self._keys:
            # its name is upstream's: settings by file name then treat it alike, whichever configs are made
            home = draft.home.with_name(f"patched_{draft.plan.source.path.stem}__upstream.py")
            base = _read_base(draft.plan)
            states = [(each, self._reader.read(*each)) for each in ruff_inputs(self._reader, home, base.imported)]
            self._keys[place] = home, digest(repr((home, base.digest, states)).encode())
        return self._keys[place]


@dataclass(frozen=True)
class _Base:
    """A hash of upstream's text with absolute imports, and the modules that it imports."""

    digest: str
    imported: Set[str]


_BASES: WeakKeyDictionary[SourceFile, dict[str, _Base]] = WeakKeyDictionary()
"""Those of upstream's files, by the package that they are in."""


def _read_base(plan: Plan) -> _Base:
    bases = _BASES.setdefault(plan.source, {})
    if plan.upstream.package not in bases:
        text = absolute_upstream(plan)
        bases[plan.upstream.package] = _Base(digest(text.encode()), imported_modules(text))
    return bases[plan.upstream.package]


def _read_ruff_inputs(reader: InputReader, draft: _Draft, imported: Set[str]) -> dict[Input, Any]:
    """What ruff sees beside a draft's text, unless nobody asks what the result depends on."""
    if draft.outcome.inputs is None:
        return {}
    return {each: reader.read(*each) for each in ruff_inputs(reader, draft.home, imported)}


def _with_ruff_inputs(
    outcome: Outcome, draft: _Draft, reader: InputReader, imported: Set[str], is_same: bool
) -> Outcome:
    """The outcome with what ruff saw while it worked on it: the same before and afterwards."""
    if outcome.inputs is None or outcome.artifact is None:
        return outcome
    imported = imported | imported_modules(outcome.artifact.text)
    inputs = {**outcome.inputs, **_read_ruff_inputs(reader, draft, imported)}
    uncacheable = outcome.uncacheable or (
        "" if is_same else "ruff's settings or the project's folders change while it is made"
    )
    return replace(outcome, inputs=inputs, uncacheable=uncacheable)


def _finish_one(draft: _Draft, result: Normalized, bases: _Bases) -> Outcome:
    outcome, plan = draft.outcome, draft.plan
    problems = _complaints(draft, result)
    if problems:
        return replace(outcome, problems=problems)
    assert outcome.output is not None
    keeps_diff = _keeps_diff(bases.project, draft)
    text = _seal(result, outcome.output)
    return replace(outcome, artifact=Artifact(plan, outcome.output, text, partial(bases.read, draft), keeps_diff))


def _seal(result: Normalized, output: Path) -> str:
    """The text of a module, whose header names ruff's version where it hangs on that. A file that stands there, and
    differs in nothing but that line, is what it should be."""
    if not result.ruff:
        return seal(result.text)
    try:
        old = read_text(output) or ""
    except PatchgenError:  # what compares or writes the file says why
        old = ""
    standing = seal(name_ruff(result.text, read_ruff(old)))
    return standing if old == standing else seal(name_ruff(result.text, result.ruff))


def _complaints(draft: _Draft, result: Normalized) -> tuple[Problem, ...]:
    problems: dict[tuple[str, Location | None], Problem] = {}
    for complaint in result.complaints:
        problem = _complaint(draft, complaint)
        if problem is not None and not _is_allowed(draft, complaint, problem):
            message = problem.message.rpartition(" in ")[0]  # once for each user of a name, not for each use
            problems.setdefault((message, problem.location), problem)
    return tuple(problems.values())


def _is_allowed(draft: _Draft, complaint: Complaint, problem: Problem) -> bool:
    """Whether the config allows what is wrong; then the contract rule of that code reports it."""
    allowances = draft.plan.config.allowed
    owner = parse_source(Path(), draft.raw.text).owner_at(complaint.line) if allowances else ""
    return any(allowance.covers(problem.code, owner) for allowance in allowances)


def _unbound_by_edits(draft: _Draft, complaint: Complaint, line_excerpt: str) -> Problem | None:
    """What upstream's own code lacks since an edit took away what bound it; None for what upstream lacks as well."""
    owner = parse_source(Path(), draft.raw.text).owner_at(complaint.line)
    patch = next((p for p in draft.plan.patches if p.lines and p.dotted == owner), None)
    if patch is None or complaint.name not in upstream_names(patch):
        return None
    message = f"{patch.label}: edits remove the code that binds '{complaint.name}', which line {complaint.line} of"
    hint = "Bind it in an edit, or edit what uses it."
    location = patch.patch.location
    return Problem(f"{message} {draft.plan.config.target_file} still uses", location, hint, line_excerpt, UNDEFINED)


def _complaint(draft: _Draft, complaint: Complaint) -> Problem | None:
    config, line = draft.plan.config, complaint.line
    line_excerpt = excerpt(draft.raw.text, line)
    where = f"in {config.target_file}, line {line}"
    origin = next((w.origin for w in draft.raw.written if w.first <= line <= w.last), None)
    location = origin.location if origin and origin.location else config.location
    if not complaint.name:
        source = f"{origin.label}: " if origin else ""
        return Problem(f"{source}not valid Python {where}: {complaint.message}", location, excerpt=line_excerpt)
    name = complaint.name
    if name in (*draft.plan.excluded, *draft.plan.dropped):
        call = "exclude_from_output" if name in draft.plan.excluded else "drop_import_names"
        owner = "" if origin else parse_source(Path(), draft.raw.text).owner_at(line)
        user = origin.label if origin else f"upstream's '{owner}'" if owner else "upstream's code"
        message = f"{call} takes '{name}' out, but {user} still uses it {where}"
        hint = "Patch or exclude what uses it, or bind the name yourself."
        return Problem(message, location if origin else config.location_of(call, name), hint, line_excerpt, DANGLING)
    if origin is None:
        return _unbound_by_edits(draft, complaint, line_excerpt)
    meant = suggest_name(draft.raw.text, line, name)
    hint = "mport it with config.add_import, copy it with config.add_helper, or assign it in a post-import block."
    hint = meant.followed_by(f"If not, i{hint}") if meant.endswith("?") else meant or NameHint(f"I{hint}", name)
    location = find_line_of_config(location, draft.raw.text.split("\n")[line - 1], draft.sources)
    message = f"{origin.label}: nothing defines '{name}' {where}"
    if name in draft.plan.index.names:
        hint = "It is evaluated when the module is imported: add a helper with add_helper_after, below what it needs."
        message = f"{origin.label}: '{name}' is not defined yet {where}"
    return Problem(message, location, hint, line_excerpt, UNDEFINED)
