"""Configs against one release of upstream: what generates, what breaks a rule, and whose fault it is."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

from patchgen_core.build.artifacts import make_outcomes
from patchgen_core.build.results import Outcome
from patchgen_core.checks.contract.library import Library
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.config.argument_lines import calls_at
from patchgen_core.config.declarations import Patch
from patchgen_core.config.loading import LoadedConfig
from patchgen_core.config.replacement import read_replacement
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.package_configs import ConfigKey, patches_of
from patchgen_core.upgrade.release_module import ReleaseModule
from patchgen_core.upstream.module import UpstreamModule, find_upstream
from patchgen_core.upstream.releases import Release

_ROUNDS = 3
"""How often declarations are left out of a config that does not generate."""


_LINE = re.compile(r"\bline \d+")


@dataclass(frozen=True)
class PatchProblem:
    """A problem, and which patch of the config it is about; None for none of them."""

    problem: Problem
    patch: int | None

    @property
    def identity(self) -> tuple[object, ...]:
        """What tells it from others, whichever release it is of: not the line of a module that it names."""
        return self.problem.code, self.problem.location, _LINE.sub("line", self.problem.message)


@dataclass(frozen=True)
class Generation:
    """What becomes of a config.

    Attributes:
        problems: why it does not generate; what is wrong with its patches even where another is, too.
        errors: which contract rules its generated module breaks. Where it does not generate, that is the module of
            what is left of it without the declarations that keep it from doing so.
        base: upstream's text with absolute imports, as ruff formats it; empty when nothing generates.
    """

    problems: tuple[PatchProblem, ...] = ()
    errors: tuple[PatchProblem, ...] = ()
    base: str = ""

    def new_errors(self, before: Generation | None) -> list[PatchProblem]:
        """The errors that another release's module lacks, wherever they stand; all where there is none."""
        identities = {entry.identity for entry in before.errors} if before is not None else set()
        return [entry for entry in self.errors if entry.identity not in identities]


class ReleaseProject:
    """A project with one release of upstream, whose files are parsed into `sources`; the configs' are in `configs`."""

    def __init__(self, project: Project, release: Release, sources: SourceCache, configs: SourceCache) -> None:
        self.project, self.release = replace(project, upstream=(release.folder,)), release
        self.sources, self.configs = sources, configs
        self.library = Library(self.project, sources)

    @cached_property
    def _contracts(self) -> Contracts:
        return Contracts(self.project, self.sources)

    @cached_property
    def _codes(self) -> frozenset[str]:
        """The rules whose findings are errors."""
        return frozenset(rule.code for rule in self._contracts.rules if rule.severity == "error")

    def module(self, loaded: LoadedConfig) -> UpstreamModule | None:
        """A config's upstream module; None when the release has none."""
        folder = self.release.folder
        try:
            upstream = find_upstream(loaded.config.source_module, (folder,), loaded.config.place_of("source_module"))
        except PatchgenError:
            return None
        return upstream if upstream.path.is_relative_to(folder) else None

    def release_module(self, loaded: LoadedConfig) -> ReleaseModule | None:
        """A config's upstream module as this release has it; None when it has none."""
        module = self.module(loaded)
        if module is None:
            return None
        return ReleaseModule(module, self.sources.get(module.path), self.library, self.release.origin)

    def generate(self, configs: Mapping[ConfigKey, LoadedConfig]) -> dict[ConfigKey, Generation]:
        """What becomes of configs whose modules the release has.

        Raises:
            PatchgenError: ruff cannot run, or the project's settings name a rule or module that is not there.
        """
        rests = self._rests(self._outcomes(configs))
        return {key: self._generation(configs[key], outcomes) for key, outcomes in rests.items()}

    def _outcomes(self, configs: Mapping[ConfigKey, LoadedConfig]) -> dict[ConfigKey, Outcome]:
        return dict(zip(configs, make_outcomes(self.project, configs.values(), self.sources)))

    def _rests(self, outcomes: Mapping[ConfigKey, Outcome]) -> dict[ConfigKey, list[Outcome]]:
        """What becomes of each config, and of one that does not generate without what keeps it from doing so: there,
        something else may be wrong, for generating stops at the first kind of problems."""
        results = {key: [outcome] for key, outcome in outcomes.items()}
        for _ in range(_ROUNDS):
            rests: dict[ConfigKey, LoadedConfig] = {}
            for key, (*_, outcome) in results.items():
                if outcome.artifact is None and outcome.loaded is not None:
                    finder = PatchFinder(outcome.loaded, self.configs)
                    patches = {number for p in outcome.problems if (number := finder.find_patch(p)) is not None}
                    rest = without_refused(outcome.loaded, outcome.problems, patches)
                    rests |= {key: rest} if rest is not None else {}
            if not rests:
                break
            for key, outcome in self._outcomes(rests).items():
                results[key].append(outcome)
        return results

    def _generation(self, loaded: LoadedConfig, outcomes: Sequence[Outcome]) -> Generation:
        finder, last = PatchFinder(loaded, self.configs), outcomes[-1]
        errors: tuple[Problem, ...] = ()
        if last.artifact is not None:
            errors = self._contracts.examine(last.artifact, last.path, self._codes).errors
        problems = [*finder.assign(outcomes[0].problems)]
        for rest in outcomes[1:]:
            if rest.loaded is not None and not lacks_names(rest.loaded, loaded):
                problems += [problem for problem in finder.assign(rest.problems) if problem.patch is not None]
        base = last.artifact.base if last.artifact is not None else ""
        return Generation(tuple(problems), tuple(finder.assign(errors)), base)


class PatchFinder:
    """Which patch of a config a problem is about, told by the line that it names."""

    def __init__(self, loaded: LoadedConfig, sources: SourceCache) -> None:
        self._patches, self._sources = patches_of(loaded), sources
        self._lines = [_lines(patch, loaded, sources) for patch in self._patches]
        self._shared = loaded.config.location

    def assign(self, problems: Sequence[Problem]) -> Iterator[PatchProblem]:
        """The problems, each with the patch that it is about."""
        return (PatchProblem(problem, self.find_patch(problem)) for problem in problems)

    def find_patch(self, problem: Problem) -> int | None:
        """The number of the patch; None for none."""
        at = problem.location
        if at is None:
            return None
        numbers = range(len(self._patches))
        labelled = [n for n in numbers if f" {self._patches[n].target}:" in problem.message]
        declared = [n for n in labelled or numbers if self._patches[n].location == at]
        if declared and (labelled or at != self._shared):
            return declared[0]
        inside = (n for n in numbers if at.file == self._lines[n][0] and at.line in self._lines[n][1])
        calls = (n for n in numbers if self._is_in_call(at, self._patches[n]))
        return next(chain(inside, calls), None)

    def _is_in_call(self, at: Location, patch: Patch) -> bool:
        """Whether a line is one of the call, over several lines, that declares a patch."""
        first = patch.location
        if first is None or first.file != at.file or first.line >= at.line:
            return False
        calls = calls_at(self._sources.get(Path(at.file)), first.line)
        return any(at.line <= (call.end_lineno or 0) for call in calls)


def _lines(patch: Patch, loaded: LoadedConfig, sources: SourceCache) -> tuple[str, range]:
    """File and lines of a patch's replacement."""
    assert patch.location is not None
    try:
        replacement = read_replacement(patch.replacement, sources, loaded.modules, patch.location)
    except PatchgenError:
        return "", range(0)
    first = replacement.location.line
    return replacement.location.file, range(first, first + replacement.text.count("\n") + 1)


def without_refused(
    loaded: LoadedConfig, problems: Iterable[Problem], patches: Collection[int]
) -> LoadedConfig | None:
    """A config without the declarations that problems are about, and without patches of these numbers; None when none
    of its declarations is left out."""
    config, old = copy.copy(loaded.config), loaded.config
    places_and_messages = [(problem.location, problem.message) for problem in problems if problem.location is not None]
    places = {place for place, _ in places_and_messages if place != old.location}

    def stays(call: str, value: str | tuple[str, str], *names: str) -> bool:
        place = old.location_of(call, value)
        return not any(
            place == at and any(f"'{name}'" in message for name in names) for at, message in places_and_messages
        )

    def is_elsewhere(location: Location | None) -> bool:
        return location not in places

    numbered = list(enumerate(old.patches))
    config.patches = [patch for number, patch in numbered if number not in patches]
    config.positioned_helpers = [helper for helper in old.positioned_helpers if is_elsewhere(helper.location)]
    config.helpers = [helper for helper in old.helpers if is_elsewhere(helper.location)]
    config.additional_imports = [spec for spec in old.additional_imports if is_elsewhere(spec.location)]
    config.exclude = [name for name in old.exclude if stays("exclude_from_output", name, name)]
    config.drop_imported_names = [n for n in old.drop_imported_names if stays("drop_import_names", n, n)]
    config.dropped_decorators = [pair for pair in old.dropped_decorators if stays("drop_decorators", pair, *pair)]
    lists = ("patches", "positioned_helpers", "helpers", "additional_imports", "exclude", "drop_imported_names")
    if all(len(getattr(config, name)) == len(getattr(old, name)) for name in (*lists, "dropped_decorators")):
        return None
    return replace(loaded, config=config)


def lacks_names(rest: LoadedConfig, loaded: LoadedConfig) -> bool:
    """Whether a config was left without helpers or imports, whose names its patches may use."""
    lists = ("helpers", "positioned_helpers", "additional_imports")
    return any(len(getattr(rest.config, name)) < len(getattr(loaded.config, name)) for name in lists)
