"""What is known of a project while its files are open: each config is made once for each text of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.inputs import InputReader
from patchgen_core.build.results import Artifact, ConfigResult, Outcome
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
from patchgen_lsp.analysis.open_texts import OpenTexts
from patchgen_lsp.analysis.upstream_moves import UpstreamMove, find_move

MOST_ANALYSES = 8
"""Configs whose results are held, with their syntax trees; those that were asked for least recently go."""

UNSAVED = "unsaved"
"""The code of what is no finding: a config that has to be saved before it can be checked."""


@dataclass(frozen=True)
class Analysis:
    """What became of a config file with one text of it.

    ``results`` are those of drift and contracts; ``problems`` say why there are none. ``inputs`` are what its text was
    and what else it depends on, as far as that is known.
    """

    outcomes: tuple[Outcome, ...] = ()
    results: tuple[CheckResult, ...] = ()
    problems: tuple[Problem, ...] = ()
    inputs: tuple[object, ...] = ()

    @property
    def is_traceable(self) -> bool:
        """Whether it is known what it depends on."""
        return _are_traceable(self.outcomes)

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """What its configs make."""
        return tuple(outcome.artifact for outcome in self.outcomes if outcome.artifact is not None)

    @cached_property
    def moves(self) -> list[UpstreamMove | None]:
        """What upstream has changed since the checked-in file of each was made."""
        return [find_move(artifact) for artifact in self.artifacts]


class Workbench:
    """The analyses of one project's configs."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.sources = OpenTexts()
        self._analyses: dict[Path, Analysis] = {}
        self._last_good: dict[Path, Analysis] = {}
        self._contracts: tuple[int, Contracts] | None = None

    def show(self, texts: Mapping[Path, str]) -> None:
        """Take note of unsaved texts, and of files that were written meanwhile."""
        self.sources.show(texts)

    def forget_failures(self) -> None:
        """Have configs made again of which it is not known what they depend on, such as those with errors."""
        self._analyses = {path: each for path, each in self._analyses.items() if each.is_traceable}
        self._contracts = None

    def analyse(self, path: Path) -> Analysis:
        """What became of a config file as it is now; made only where something that it depends on has changed."""
        last = self._analyses.get(path)
        if last is not None and last.inputs == self._read(path, last.outcomes):
            return last
        analysis = self._make(path)
        self._hold(self._analyses, path, analysis)
        if analysis.artifacts:
            self._hold(self._last_good, path, analysis)
        return analysis

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
        try:
            self.sources.get(path)
            outcomes = make_artifacts(Selection(self.project, [path]), self._loader(path))
            compared = [compare(outcome) for outcome in outcomes]
            results = [drift_result(result) for result in compared]
            results += list(self._examine(compared))
        except PatchgenError as error:
            return Analysis(problems=error.problems, inputs=self._read(path, ()))
        return Analysis(tuple(outcomes), tuple(results), inputs=self._read(path, outcomes))

    def _loader(self, path: Path) -> Loader:
        """What loads a config: with stubs alone while it is being typed, because an import for real costs seconds."""
        is_saved = not self.sources.differs(path)
        return Loader(self.project, self.sources) if is_saved else _StubLoader(self.project, self.sources)

    def contracts(self) -> Contracts:
        """What runs the rules, which reads what modules share once; a PatchgenError where settings name no rule."""
        if self._contracts is None or self._contracts[0] != self.sources.epoch:
            self._contracts = (self.sources.epoch, Contracts(self.project, self.sources))
        return self._contracts[1]

    def _examine(self, results: Iterable[ConfigResult]) -> Iterable[CheckResult]:
        """What the contract rules find, but for what the project's baseline holds back."""
        contracts = self.contracts()
        baseline = read_baseline(self.project)
        for result in results:
            artifact = result.outcome.artifact
            if artifact is not None:
                examined = contracts.examine(artifact, result.outcome.path)
                yield hold_back(examined, CONTRACT, baseline) if baseline is not None else examined

    def _read(self, path: Path, outcomes: Iterable[Outcome]) -> tuple[object, ...]:
        """The states of everything that outcomes depend on; of the open texts alone where that is not known."""
        outcomes = list(outcomes)
        if not _are_traceable(outcomes):
            return (self.sources.text(path), self.sources.revision)
        reader = InputReader(self.project)
        inputs = sorted({each for outcome in outcomes for each in outcome.inputs or {}})
        states: list[object] = [self.sources.text(path), *(self._state(reader, each) for each in inputs)]
        outputs = [file for outcome in outcomes if (file := outcome.output) is not None]
        return (*states, *(_stamp(file) for output in outputs for file in (output, output.with_suffix(".diff"))))

    def _state(self, reader: InputReader, each: Input) -> object:
        kind, name = each
        if kind == "file" and self.sources.is_open(reader.path(name)):
            return self.sources.text(reader.path(name))
        return reader.read(kind, name)


class _StubLoader(Loader):
    """Imports nothing for real."""

    def _imported(self, path: Path, module: str, reason: str) -> dict[str, dict[str, Any]]:
        message = f"the config cannot be loaded with stubs: {reason}"
        hint = "It is checked with its real imports when it is saved."
        raise PatchgenError(message, Location(str(path)), hint, code=UNSAVED)


def _are_traceable(outcomes: Sequence[Outcome]) -> bool:
    return bool(outcomes) and not any(o.inputs is None or o.uncacheable or o.artifact is None for o in outcomes)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
