"""What is known of a project while its files are open: each config is made once for each text of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from patchgen_core.build.artifacts import EarlierTexts, make_artifacts
from patchgen_core.build.inputs import InputReader
from patchgen_core.build.results import Artifact, Outcome
from patchgen_core.build.selection import Selection
from patchgen_core.checks.baseline import hold_back, read_baseline
from patchgen_core.checks.checked_in.compare import compare
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.checks.result import CheckResult, drift_result
from patchgen_core.checks.settings import CONTRACT
from patchgen_core.config.input_recording import Input
from patchgen_core.config.loading import Loader
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.project.project import Project
from patchgen_core.upstream.releases import release_folder
from patchgen_lsp.analysis.generated_modules import GeneratedModules
from patchgen_lsp.analysis.open_texts import OpenTexts
from patchgen_lsp.analysis.outer_bases import OuterBases
from patchgen_lsp.analysis.packed_texts import PackedTexts
from patchgen_lsp.analysis.upstream_moves import UpstreamMove, find_move

MOST_ANALYSES = 4
"""Configs whose results are held, with their syntax trees; those that were asked for least recently go."""

UNSAVED = "unsaved"
"""The code of what is no finding: a config that has to be saved before it can be checked."""


@dataclass(frozen=True)
class Analysis:
    """What became of a config file with one text of it.

    ``results`` are those of drift and contracts; ``problems`` say why there are none. ``states`` are what its text was
    and what else it depends on, ``traces`` says where that stands. ``releases`` is the
    folder of those that are at hand.
    """

    outcomes: tuple[Outcome, ...] = ()
    results: tuple[CheckResult, ...] = ()
    problems: tuple[Problem, ...] = ()
    traces: _Traces | None = None
    states: tuple[object, ...] = ()
    releases: Path = Path()

    @property
    def verdict(self) -> Analysis:
        """The same without what it was made from, which holds syntax trees."""
        return replace(self, outcomes=())

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """What its configs make."""
        return tuple(outcome.artifact for outcome in self.outcomes if outcome.artifact is not None)

    @cached_property
    def moves(self) -> list[UpstreamMove | None]:
        """What upstream has changed since the checked-in file of each was made."""
        return [find_move(artifact, self.releases) for artifact in self.artifacts]


@dataclass(frozen=True)
class _Traces:
    """What an analysis depends on beside the config's text, and the files that it is about."""

    inputs: tuple[Input, ...]
    outputs: tuple[Path, ...]


class Workbench:
    """The analyses of one project's configs."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.sources = OpenTexts()
        self._analyses: dict[Path, Analysis] = {}
        self._last_good: dict[Path, Analysis] = {}
        self._verdicts: dict[Path, Analysis] = {}
        self._contracts: tuple[int, Contracts] | None = None
        self._earlier = EarlierTexts(PackedTexts())
        self._modules = GeneratedModules()
        self.outer_bases = OuterBases(project, self.sources)

    def show(self, texts: Mapping[Path, str]) -> None:
        """Take note of unsaved texts, and of files that were written meanwhile."""
        self.sources.show(texts)
        if self._contracts is not None:
            self._contracts[1].forget(self.sources.holds)

    def forget_failures(self) -> None:
        """Have configs made again of which it is not known what they depend on, such as those with errors."""
        self._earlier.bases.clear()
        self._analyses = {path: each for path, each in self._analyses.items() if each.traces is not None}
        self._verdicts = {path: each for path, each in self._verdicts.items() if each.traces is not None}
        self._contracts = None

    def analyse(self, path: Path) -> Analysis:
        """What became of a config file as it is now; made only where something that it depends on has changed."""
        last = self._analyses.get(path)
        if last is not None and self._is_current(path, last):
            return last
        analysis = self._make(path)
        self._hold(self._analyses, path, analysis)
        self._verdicts[path] = analysis.verdict
        if analysis.artifacts:
            self._hold(self._last_good, path, analysis)
        return analysis

    def judge(self, path: Path) -> Analysis:
        """The same, perhaps without what was made: of many configs only the verdicts are held."""
        verdict = self._verdicts.get(path)
        return verdict if verdict is not None and self._is_current(path, verdict) else self.analyse(path)

    def _is_current(self, path: Path, analysis: Analysis) -> bool:
        """Whether nothing that an analysis depends on has changed; most often the config's own text has."""
        is_same_text = analysis.states[0] == self.sources.text(path)
        return is_same_text and analysis.states == self._read(path, analysis.traces)

    def last_good(self, path: Path) -> Analysis:
        """What a config file made when it last made something; that of the file as it is, where it never was asked."""
        if path not in self._last_good:
            analysis = self.analyse(path)
            return self._last_good.get(path, analysis)
        return self._last_good[path]

    @staticmethod
    def _hold(analyses: dict[Path, Analysis], path: Path, analysis: Analysis) -> None:
        analyses.pop(path, None)
        analyses[path] = analysis
        while len(analyses) > MOST_ANALYSES:
            del analyses[next(iter(analyses))]

    def _make(self, path: Path) -> Analysis:
        ahead = _Ahead(self, path)
        try:
            self.sources.get(path)
            outcomes = make_artifacts(
                Selection(self.project, [path]), self._loader(path), earlier=self._earlier, meanwhile=ahead.look
            )
            outcomes = list(map(ahead.confirm, outcomes))
            for outcome in outcomes:
                if outcome.artifact is not None:
                    self._modules.read(outcome.artifact)
            compared = [compare(outcome, with_diffs=False) for outcome in outcomes]
            results = [drift_result(result, with_diffs=False) for result in compared]
            artifacts = [outcome.artifact for outcome in outcomes if outcome.artifact is not None]
            results += list(self._hold_back(map(ahead.examine, artifacts)))
        except PatchgenError as error:
            return Analysis(problems=error.problems, states=self._read(path, None))
        traces = _trace(outcomes)
        states = self._read(path, traces, _recorded(outcomes))
        folder = release_folder(self.project)
        return Analysis(tuple(outcomes), tuple(results), traces=traces, states=states, releases=folder)

    def _loader(self, path: Path) -> Loader:
        """What loads a config: with stubs alone while it is being typed, because an import for real costs seconds."""
        is_saved = not self.sources.differs(path)
        return Loader(self.project, self.sources) if is_saved else _StubLoader(self.project, self.sources)

    def contracts(self) -> Contracts:
        """What runs the rules, which reads what modules share once; a PatchgenError where settings name no rule."""
        if self._contracts is None or self._contracts[0] != self.sources.epoch:
            self._contracts = (
                self.sources.epoch,
                Contracts(self.project, self.sources, read_generated=self._modules.read),
            )
        return self._contracts[1]

    def examine(self, artifact: Artifact, path: Path) -> CheckResult:
        """What the contract rules find in what a config file makes."""
        self._modules.read(artifact)
        return self.contracts().examine(artifact, path)

    def _hold_back(self, results: Iterable[CheckResult]) -> Iterable[CheckResult]:
        """What the rules find, but for what the project's baseline holds back."""
        baseline = read_baseline(self.project)
        for result in results:
            yield hold_back(result, CONTRACT, baseline) if baseline is not None else result

    def _read(
        self, path: Path, traces: _Traces | None, recorded: Mapping[Input, object] | None = None
    ) -> tuple[object, ...]:
        """The states of everything that an analysis depends on, read now where they are not ``recorded``; of the open
        texts alone where it is not known on what it depends."""
        if traces is None:
            return (self.sources.text(path), self.sources.revision)
        reader = InputReader(self.project)
        states = [self._state(reader, each, recorded) for each in traces.inputs]
        stamps = [_stamp(file) for out in traces.outputs for file in (out, out.with_suffix(".diff"))]
        return (self.sources.text(path), *states, *stamps)

    def _state(self, reader: InputReader, each: Input, recorded: Mapping[Input, object] | None) -> object:
        kind, name = each
        if kind == "file" and self.sources.is_open(reader.path(name)):
            return self.sources.text(reader.path(name))
        return recorded[each] if recorded is not None else reader.read(kind, name)


class _Ahead:
    """Runs the contract rules over what a config file makes most likely, while ruff is at work on it."""

    def __init__(self, bench: Workbench, path: Path) -> None:
        self._bench, self._path = bench, path
        self._likely: tuple[Artifact, CheckResult] | None = None

    def look(self, outcome: Outcome) -> None:
        """Examine what most likely comes of the file."""
        if outcome.artifact is not None:
            with contextlib.suppress(PatchgenError):  # it is raised where that is what comes of it
                self._likely = outcome.artifact, self._bench.examine(outcome.artifact, self._path)

    def confirm(self, outcome: Outcome) -> Outcome:
        """An outcome, with the artifact that was examined where it is the same."""
        artifact, likely = outcome.artifact, self._likely[0] if self._likely is not None else None
        if artifact is None or likely is None or (artifact.text, artifact.path) != (likely.text, likely.path):
            return outcome
        return replace(outcome, artifact=likely)

    def examine(self, artifact: Artifact) -> CheckResult:
        """What the rules find in an artifact, which they may have looked at ahead."""
        if self._likely is not None and artifact is self._likely[0]:
            return self._likely[1]
        return self._bench.examine(artifact, self._path)


class _StubLoader(Loader):
    """Imports nothing for real."""

    def _imported(self, path: Path, module: str, reason: str) -> dict[str, dict[str, Any]]:
        message = f"the config cannot be loaded with stubs: {reason}"
        hint = "It is checked with its real imports when it is saved."
        raise PatchgenError(message, Location(str(path)), hint, code=UNSAVED)


def _trace(outcomes: Sequence[Outcome]) -> _Traces | None:
    """What outcomes depend on; None where that is not known."""
    if not outcomes or any(o.inputs is None or o.uncacheable or o.artifact is None for o in outcomes):
        return None
    inputs = sorted({each for outcome in outcomes for each in outcome.inputs or {}})
    return _Traces(tuple(inputs), tuple(file for outcome in outcomes if (file := outcome.output) is not None))


def _recorded(outcomes: Sequence[Outcome]) -> dict[Input, object]:
    """The states of what outcomes depend on, as they were while these were made."""
    return {each: state for outcome in outcomes for each, state in (outcome.inputs or {}).items()}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
