"""What the gate would say of a choice before anything is written: whether its configs generate and keep contracts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.authoring.edits.needed_imports import missing_imports
from patchgen_core.config.loading import LoadedConfig
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache, read_source
from patchgen_core.upgrade.deciding.choices import Choice, Question, decide, settle_report
from patchgen_core.upgrade.deciding.gate_copy import gate_copy
from patchgen_core.upgrade.package_configs import unpinned
from patchgen_core.upgrade.release_project import Generation, PatchProblem, ReleaseProject
from patchgen_core.upgrade.results import ConfigVerdict, Rebase, UpgradeReport
from patchgen_core.upgrade.writing.candidates import Key, find_candidates
from patchgen_core.upgrade.writing.gating import Echo, GateRun
from patchgen_core.upgrade.writing.rehearsing import Rehearsal
from patchgen_core.upgrade.writing.rewriting import rewrite
from patchgen_core.upstream.module import find_upstream
from patchgen_core.upstream.releases import Release

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Verdict:
    """What a choice does to the configs that it concerns.

    Attributes:
        reason: why it cannot be written at all; empty when it can.
        new: what is wrong with it, and was not before.
        mended: what was wrong before, and is not with it; ``staying`` what is wrong with and without it.
    """

    configs: int
    reason: str = ""
    new: tuple[Problem, ...] = ()
    mended: tuple[Problem, ...] = ()
    staying: tuple[Problem, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong that was not before."""
        return not self.reason and not self.new


class Trials:
    """Tries choices on a project as it is, each by itself."""

    def __init__(self, project: Project, report: UpgradeReport, release: Release) -> None:
        self.project, self.report, self.release = project, report, release
        self._rehearsal = Rehearsal(project, report, release.folder, release.version)
        self._upstream = SourceCache()
        self._before: dict[Key, Generation] = {}

    def decide(self, question: Question, choice: Choice) -> Rebase:
        """The question's merge as a choice makes it, with the imports that its text needs."""
        if choice.name == "accept":
            return question.rebase
        needs: dict[str, None] = {}
        for config, _ in question.patches:
            try:
                upstream = find_upstream(config.module, (self.release.folder,))
            except PatchgenError:
                continue
            file = read_source(Path(question.location.file))
            needs |= dict.fromkeys(missing_imports(choice.text, file, self._upstream.get(upstream.path), upstream))
        return decide(question.rebase, choice, tuple(needs))

    def try_choice(self, question: Question, choice: Choice) -> Verdict:
        """What a choice does; nothing is written."""
        keys = tuple(dict.fromkeys((config.path, config.config) for config, _ in question.patches))
        report = settle_report(self.report, {question.location: self.decide(question, choice)})
        report = _with_merges(report, lambda config, rebase: rebase.location == question.location)
        files, uses = self._rehearsal.files, self._rehearsal.uses
        candidates, omissions = find_candidates(self.project, report, files, uses, conflicts=False)
        own = [candidate for candidate in candidates if candidate.rebase.location == question.location]
        left = [omission.reason for omission in omissions if omission.rebase.location == question.location]
        if left:
            return Verdict(len(keys), left[0])
        after, failed = self._generations(self._rehearsal.load(own, keys, self._upstream), keys)
        if failed:
            return Verdict(len(keys), new=tuple(failed))
        return self._compare(keys, after)

    def run_gate(
        self, question: Question, choice: Choice, checks: Sequence[str], echo: Echo | None = None
    ) -> GateRun | str:
        """What checks say of a choice and of all that merges cleanly beside it, in a copy of the project; why they
        cannot run where the configs do not generate with it."""
        keys = tuple(dict.fromkeys((config.path, config.config) for config, _ in question.patches))
        report = settle_report(self.report, {question.location: self.decide(question, choice)})
        report = _with_merges(report, lambda config, rebase: (config.path, config.config) in keys)
        rehearsal = self._rehearsal
        found, _ = find_candidates(self.project, report, rehearsal.files, rehearsal.uses, conflicts=False)
        candidates = [candidate for candidate in found if candidate.configs & set(keys)]
        result = rehearsal.make(candidates, keys)
        problems = [problem for key in keys for problem in result.problems.get(key, ())]
        if problems:
            return f"not generated: {problems[0].message}"
        rewritten = rewrite(self.project, rehearsal.files, candidates, rehearsal.pins(keys))
        files = [(path, file.encoded) for path, file in rewritten.items()]
        files += [file for artifact in result.artifacts.values() for file in artifact.output()]
        return gate_copy(self.project, self.release, files, (Path(path) for path, _ in keys), checks, echo)

    def _compare(self, keys: Sequence[Key], after: dict[Key, Generation]) -> Verdict:
        missing = [key for key in keys if key not in self._before]
        self._before |= (
            self._generations(self._rehearsal.load([], missing, self._upstream), missing)[0] if missing else {}
        )
        new: list[Problem] = []
        mended: list[Problem] = []
        staying: list[Problem] = []
        for key in keys:
            old_problems, problems = (_problems(side.get(key)) for side in (self._before, after))
            new += _without(problems, old_problems)
            mended += _without(old_problems, problems)
            staying += [entry.problem for entry in problems if entry.problem not in new]
        groups = (tuple(dict.fromkeys(group)) for group in (new, mended, staying))
        return Verdict(len(keys), "", *groups)

    def _generations(
        self, loading: tuple[list[LoadedConfig], dict[Key, tuple[Problem, ...]], SourceCache], keys: Sequence[Key]
    ) -> tuple[dict[Key, Generation], list[Problem]]:
        """What becomes of configs, and why some do not load."""
        loaded, problems, sources = loading
        configs = {(str(c.path), c.name): unpinned(c) for c in loaded if (str(c.path), c.label) in keys}
        labels = {(str(c.path), c.name): (str(c.path), c.label) for c in loaded}
        project = ReleaseProject(self.project, self.release, sources, sources)
        generations = project.generate(configs) if configs else {}
        failed = [problem for key in keys for problem in problems.get(key, ())]
        return {labels[key]: generation for key, generation in generations.items()}, failed


def _with_merges(report: UpgradeReport, is_wanted: Callable[[ConfigVerdict, Rebase], bool]) -> UpgradeReport:
    """A report with some of its merges alone: to prepare each of a large project takes long."""

    def narrow(config: ConfigVerdict) -> ConfigVerdict:
        def keep(rebase: Rebase | None) -> Rebase | None:
            return rebase if rebase is not None and is_wanted(config, rebase) else None

        patches = tuple(replace(patch, rebase=keep(patch.rebase)) for patch in config.patches)
        findings = tuple(replace(finding, rebase=keep(finding.rebase)) for finding in config.findings)
        return replace(config, patches=patches, findings=findings)

    return replace(report, configs=tuple(map(narrow, report.configs)))


def _problems(generation: Generation | None) -> tuple[PatchProblem, ...]:
    return (*generation.problems, *generation.errors) if generation is not None else ()


def _without(problems: Iterable[PatchProblem], others: Iterable[PatchProblem]) -> list[Problem]:
    """The problems that the others lack, whatever lines they name."""
    known = {_identity(entry.problem) for entry in others}
    return [entry.problem for entry in problems if _identity(entry.problem) not in known]


def _identity(problem: Problem) -> tuple[str, str]:
    return problem.code, _NUMBER.sub("", problem.message)
