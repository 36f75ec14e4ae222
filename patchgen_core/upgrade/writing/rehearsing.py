"""Generating configs against a release with new texts of their replacements, before these are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from patchgen_core.authoring.edits.config_file import ConfigFiles
from patchgen_core.authoring.edits.declarations import pin_version
from patchgen_core.build.artifacts import make_outcomes
from patchgen_core.build.results import Artifact
from patchgen_core.config.declarations import WITHOUT_FUNCTION
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.config.replacement import read_replacement
from patchgen_core.config.spec import PatchConfig
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.results import UpgradeReport
from patchgen_core.upgrade.writing.candidates import Candidate, DeclaredUse, FileChanges, Key, Omission
from patchgen_core.upgrade.writing.rewriting import rewrite


@dataclass(frozen=True)
class RehearsalResult:
    """What configs make, and why others make nothing; `loaded` are those that load, and `sources` their texts."""

    artifacts: dict[Key, Artifact]
    problems: dict[Key, tuple[Problem, ...]]
    loaded: tuple[LoadedConfig, ...]
    sources: SourceCache


class Rehearsal:
    """The configs of a report, and what they make of a release."""

    def __init__(self, project: Project, report: UpgradeReport, folder: Path, version: str) -> None:
        self.project = replace(project, upstream=(folder,))
        self.version = version
        self.keys: tuple[Key, ...] = tuple(dict.fromkeys((config.path, config.config) for config in report.configs))
        self.sources, self.files = SourceCache(), ConfigFiles()
        paths = dict.fromkeys(Path(path) for path, _ in self.keys)
        self.loaded = {_key(loaded): loaded for loaded in self._load(paths, self.sources)[0]}

    def _load(
        self, paths: Iterable[Path], sources: SourceCache
    ) -> tuple[list[LoadedConfig], dict[Key, tuple[Problem, ...]]]:
        """The configs of some files, and why others do not load."""
        loader = Loader(self.project, sources)
        configs: list[LoadedConfig] = []
        problems: dict[Key, tuple[Problem, ...]] = {}
        for path in paths:
            try:
                configs += loader.load(path)
            except PatchgenError as error:
                problems |= {key: error.problems for key in self.keys if key[0] == str(path)}
        return configs, problems

    # --- what the configs are made of ------------------------------------------------------------------

    @cached_property
    def others(self) -> list[LoadedConfig]:
        """The project's configs that the report is not about, as far as they load."""
        configs, _ = self._load(self.project.find_configs(), self.sources)
        return [loaded for loaded in configs if _key(loaded) not in self.keys]

    @cached_property
    def uses(self) -> dict[Location, list[DeclaredUse]]:
        """What each definition is the replacement of, and what the calls that declare edits in quotes, or name
        something of upstream's, do."""
        uses: dict[Location, list[DeclaredUse]] = {}
        for key, loaded in self.loaded.items():
            if key not in self.keys:
                continue
            for place, use in self._uses_of(loaded):
                uses.setdefault(place, []).append(use)
            for location in _name_places(loaded.config):
                uses.setdefault(location, []).append(DeclaredUse(key, (location, "", "")))
        return uses

    def _uses_of(self, loaded: LoadedConfig) -> Iterator[tuple[Location, DeclaredUse]]:
        """The places of the definitions, and of edits in quotes, that a config's patches are made of."""
        for patch in loaded.config.patches:
            location = patch.location or loaded.config.location
            place = location
            if patch.kind not in WITHOUT_FUNCTION:
                try:
                    place = read_replacement(patch.replacement, self.sources, loaded.modules, location).location
                except (PatchgenError, AttributeError):
                    continue
            yield place, DeclaredUse(_key(loaded), (location, patch.kind, patch.target))

    def leave_used(self, candidates: Sequence[Candidate]) -> tuple[list[Candidate], list[Omission]]:
        """The candidates less the edits that other configs than the report's have as well and that would go; these
        with the reason."""
        going = [candidate for candidate in candidates if candidate.rebase.is_deletion]
        others = [entry for loaded in self.others for entry in self._uses_of(loaded)] if going else []
        users = dict(others)
        omissions = [
            Omission(c.rebase, f"{use.config[1]} has it as well, and is not part of this upgrade")
            for c in going
            if (use := users.get(c.rebase.location)) is not None
        ]
        left = [omission.rebase for omission in omissions]
        return [candidate for candidate in candidates if candidate.rebase not in left], omissions

    def pins(self, keys: Iterable[Key]) -> list[FileChanges]:
        """What pins configs to the release, where they are pinned to another one."""
        configs = [self.loaded[key].config for key in keys if key in self.loaded]
        places = dict.fromkeys(config.location for config in configs if config.transformers_version is not None)
        files = {place: self.files.get(Path(place.file)) for place in places}
        return [(file.path, pin_version(file, place.line, self.version)) for place, file in files.items()]

    def load(
        self, candidates: Sequence[Candidate], keys: Sequence[Key], sources: SourceCache | None = None
    ) -> tuple[list[LoadedConfig], dict[Key, tuple[Problem, ...]], SourceCache]:
        """The configs of some files as they are with candidates written, why others do not load, and their texts.

        `sources` has files that are parsed already; it stays as it is.
        """
        sources = sources.fork() if sources is not None else SourceCache()
        try:
            for path, file in rewrite(self.project, self.files, candidates, self.pins(keys)).items():
                sources.put(path, file.text)
        except PatchgenError as error:
            return [], dict.fromkeys(keys, error.problems), sources
        return *self._load(dict.fromkeys(Path(path) for path, _ in keys), sources), sources

    # --- making them -----------------------------------------------------------------------------------

    def make(self, candidates: Sequence[Candidate], keys: Sequence[Key]) -> RehearsalResult:
        """What some configs make when candidates are written, and they are pinned to the release."""
        loaded, problems, sources = self.load(candidates, keys)
        loaded = [entry for entry in loaded if _key(entry) in keys]
        outcomes = make_outcomes(self.project, loaded, sources)
        artifacts = {}
        for outcome in outcomes:
            if outcome.artifact is not None:
                artifacts[str(outcome.path), outcome.label] = outcome.artifact
            else:
                problems[str(outcome.path), outcome.label] = outcome.problems
        problems = {key: problems[key] for key in problems if key in keys}
        return RehearsalResult(artifacts, problems, tuple(loaded), sources)

    def settle(self, candidates: Sequence[Candidate]) -> tuple[list[Candidate], RehearsalResult, list[Omission]]:
        """The candidates that every config still generates with or has no new problem with, what is made with them,
        and why the others are left."""
        chosen, omissions = list(candidates), list[Omission]()
        while True:
            result = self.make(chosen, self.keys)
            worse = self._worse(result, self.keys)
            if not worse or not chosen:
                return chosen, result, omissions
            dropped = self._to_blame(chosen, worse[0]) or [(c, worse[0][1]) for c in chosen]
            chosen = [candidate for candidate in chosen if candidate not in [entry for entry, _ in dropped]]
            clause = f"{worse[0][0][1]} does not generate with it"
            omissions += [Omission(candidate.rebase, f"{clause}: {problem.message}") for candidate, problem in dropped]

    def _worse(self, result: RehearsalResult, keys: Iterable[Key]) -> list[tuple[Key, Problem]]:
        """The configs with a problem that they would not have if nothing were written, with that problem."""
        worse = []
        for key in keys:
            problems = result.problems.get(key, ())
            before = {_without_numbers(problem) for problem in self._before.problems.get(key, ())} if problems else ()
            new = [problem for problem in problems if _without_numbers(problem) not in before]
            worse += [(key, new[0])] if new else []
        return worse

    @cached_property
    def _before(self) -> RehearsalResult:
        """What the configs make when nothing is written."""
        return self.make([], self.keys)

    def _to_blame(
        self, candidates: Sequence[Candidate], failing: tuple[Key, Problem]
    ) -> list[tuple[Candidate, Problem]]:
        """The candidates that a config fails with, found by adding one after the other."""
        key = failing[0]
        concerned = [candidate for candidate in candidates if key in candidate.configs]
        good = [candidate for candidate in candidates if key not in candidate.configs]
        bad = []
        for candidate in concerned:
            worse = self._worse(self.make([*good, candidate], [key]), [key])
            if worse:
                bad.append((candidate, worse[0][1]))
            else:
                good.append(candidate)
        return bad


def files_of(loaded: LoadedConfig) -> set[Path]:
    """The project's files that a config is made of."""
    files = (namespace.get("__file__") for namespace in loaded.modules.values())
    return {loaded.path, *(Path(file) for file in files if file)}


def _name_places(config: PatchConfig) -> set[Location]:
    """The calls of a config that name something of upstream's beside its patches."""
    lists = (config.exclude, config.drop_imported_names, config.dropped_decorators)
    more = (config.positioned_blocks, config.positioned_helpers)
    entries: list[object] = [entry for entries in (*lists, *more) for entry in entries]
    places = [getattr(entry, name, None) for entry in entries for name in ("location", "used_at")]
    return {place for place in places if place is not None}


def _key(loaded: LoadedConfig) -> Key:
    return str(loaded.path), loaded.label


def _without_numbers(problem: Problem) -> str:
    """A problem's message without the numbers of lines, which differ."""
    return re.sub(r"\d+", "", problem.message)
