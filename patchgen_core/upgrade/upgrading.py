"""Comparing the configs of a project with another release of upstream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from patchgen_core.build.results import Progress
from patchgen_core.config.loading import LoadedConfig
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.syntax.source import SourceCache, parse_source
from patchgen_core.upgrade.package_configs import ConfigKey, PackageConfigs, config_key, patches_of
from patchgen_core.upgrade.rebasing import Rebaser, is_on
from patchgen_core.upgrade.release_module import (
    ReleaseModule,
    base_version,
    generated_file,
    recorded_module,
    release_at_hand,
)
from patchgen_core.upgrade.release_project import Generation, PatchProblem, ReleaseProject
from patchgen_core.upgrade.results import (
    RISKS,
    ConfigVerdict,
    Finding,
    PatchVerdict,
    Rebase,
    Risk,
    UpgradeReport,
)
from patchgen_core.upgrade.verdicts.comparing import Comparison, compare_config, worst
from patchgen_core.upgrade.verdicts.lost_imports import is_about, mended_names
from patchgen_core.upstream.recorded import why_not_recorded
from patchgen_core.upstream.releases import Release, Releases
from patchgen_core.workers.collector import without_collector

Standing = dict[tuple[str, str], tuple[PatchVerdict, ...]]
"""What is said of patches once they have other texts, by config and target."""


@without_collector()
def upgrade(
    selection: PackageConfigs,
    release: Release,
    releases: Releases,
    *,
    since: str | None = None,
    progress: Progress | None = None,
) -> UpgradeReport:
    """What a release does to configs, from the versions of their generated files on or from `since` on.

    Raises:
        PatchgenError: a release cannot be had, ruff cannot run, or a setting names no contract rule.
    """
    run = _Upgrade(selection, release, releases, since)
    verdicts = []
    for number, loaded in enumerate(selection.configs):
        verdicts.append(run.verdict(loaded))
        if progress is not None:
            progress(number + 1, len(selection.configs))
    verdicts.sort(key=lambda v: (RISKS.index(v.risk), v.config))
    return UpgradeReport(selection.package, release.version, tuple(verdicts), selection.skipped, selection.failed)


@without_collector()
def find_standing(
    selection: PackageConfigs, release: Release, releases: Releases, *, since: str | None = None
) -> Standing:
    """What a release does to configs whose texts are those for it already, and whose generated files are not.

    Raises:
        PatchgenError: a release cannot be had.
    """
    run = _Upgrade(selection, release, releases, since)
    standing: Standing = {}
    for loaded in selection.configs:
        for patch in run.compare(loaded).patches:
            key = loaded.label, patch.target
            standing[key] = (*standing.get(key, ()), patch)
    return standing


class _Upgrade:
    def __init__(self, selection: PackageConfigs, release: Release, releases: Releases, since: str | None) -> None:
        self.selection, self.release, self.releases, self.since = selection, release, releases, since
        self.sources = selection.sources
        self.new = _ReleaseRun(selection, release, lambda loaded: True)
        self._runs = {release.folder: self.new}

    def _run(self, release: Release) -> _ReleaseRun:
        if release.folder not in self._runs:
            self._runs[release.folder] = _ReleaseRun(self.selection, release, self._breaks_rules)
        return self._runs[release.folder]

    def _breaks_rules(self, loaded: LoadedConfig) -> bool:
        return bool(self.new.generation(loaded).errors)

    def verdict(self, loaded: LoadedConfig) -> ConfigVerdict:
        """What the release does to one config; where the old release cannot be had, whether the config generates."""
        old, before, rebaser = None, None, None
        try:
            old, before = self._old(loaded)
        except PatchgenError as error:
            notes = tuple(f"nothing is compared: {problem.message}" for problem in error.problems)
            comparison = Comparison((), notes=notes)
        else:
            comparison, rebaser = self._compare(loaded, old)
            notes = comparison.notes
        mended = mended_names(finding.rebase for finding in comparison.findings)
        blamed = [entry for entry in self._new_problems(loaded, before) if not is_about(entry.problem.message, mended)]
        patches = [self._complete(loaded, verdict, rebaser, blamed) for verdict in comparison.patches]
        if rebaser is not None:
            patches = rebaser.rebase_together(rebaser.settle_made(patches), self.selection.project)
            patches = rebaser.settle_deprecated(patches)
        blamed = [entry for entry in blamed if not _is_on_deleted(entry, loaded, patches)]
        problems = tuple(dict.fromkeys(entry.problem for entry in blamed))
        if old is not None and before is None and any(problem.code for problem in problems):
            note = (
                f"a broken contract rule may already have been broken in {old.version}: its other modules are not "
                "known"
            )
            notes = (*notes, note)
        risks: list[Risk] = ["review"] if old is None else [patch.risk for patch in patches]
        risks += [finding.risk for finding in comparison.findings]
        risks += ["must change"] * bool(problems)
        return ConfigVerdict(
            loaded.label,
            str(loaded.path),
            loaded.config.location.line,
            loaded.config.source_module,
            old.version if old is not None else "",
            self.release.version,
            old.origin if old is not None else None,
            worst(risks),
            tuple(sorted(patches, key=lambda patch: RISKS.index(patch.risk))),
            comparison.findings,
            problems,
            notes,
        )

    def compare(self, loaded: LoadedConfig) -> Comparison:
        """What changed below a config's patches; nothing where the old release cannot be had."""
        try:
            old, _ = self._old(loaded)
        except PatchgenError:
            return Comparison(())
        return self._compare(loaded, old)[0]

    def _compare(self, loaded: LoadedConfig, old: ReleaseModule) -> tuple[Comparison, Rebaser | None]:
        """What changed below a config's patches, and what carries them over if the new release has the module."""
        new = self.new.project.release_module(loaded)
        base = self.new.generation(loaded).base if new is not None and old.is_recorded else ""
        if new is not None and base:
            new = replace(new, source=parse_source(new.upstream.path, base))  # which ruff has formatted as well
        comparison = compare_config(loaded, old, new, self.sources, self.release.modules)
        return comparison, Rebaser(loaded, old, new, self.sources) if new is not None else None

    def _complete(
        self, loaded: LoadedConfig, verdict: PatchVerdict, rebaser: Rebaser | None, blamed: Sequence[PatchProblem]
    ) -> PatchVerdict:
        """A patch's verdict with its replacement carried over and with the problems that are its own."""
        rebase = rebaser.rebase(verdict) if rebaser is not None else None
        patches = patches_of(loaded)
        own = tuple(
            entry.problem
            for entry in blamed
            if entry.patch is not None and is_on(verdict, patches[entry.patch], loaded)
        )
        findings = tuple(_settled(verdict.findings, rebase))
        risks = [finding.risk for finding in findings]
        risk = worst([*risks, "must change"] if own else risks)
        return replace(verdict, rebase=rebase, problems=tuple(dict.fromkeys(own)), findings=findings, risk=risk)

    def _old(self, loaded: LoadedConfig) -> tuple[ReleaseModule, _ReleaseRun | None]:
        """Upstream as the config's generated file has it: the installed release, one of the cache, else the checked-in
        files without a release; as the last resort it is downloaded."""
        project = self.selection.project
        version = self.since or base_version(project, loaded, self.releases)
        if not version:
            message = f"no generated file says which version of {self.selection.package} this config is for"
            raise PatchgenError(message, loaded.config.location, "Name it with --from.")
        release = release_at_hand(self.releases, version)
        recorded = recorded_module(project, loaded, version) if release is None else None
        if recorded is not None:
            return recorded, None
        before = self._run(release or self._fetch(version, generated_file(project, loaded)))
        side = before.project.release_module(loaded)
        if side is None:
            message = f"{self.selection.package} {version} has no module '{loaded.config.source_module}'"
            raise PatchgenError(message, loaded.config.location, "Name a version that has it with --from.")
        return side, before

    def _fetch(self, version: str, output: Path) -> Release:
        """An old release that neither this machine nor a generated file has; an error says why the file has not."""
        try:
            return self.releases.find(version)
        except PatchgenError as error:
            reason = why_not_recorded(output)
            if not reason or self.since is not None:
                raise
            problems = [replace(p, message=f"{p.message}; and {reason}") for p in error.problems]
            raise PatchgenError.from_problems(problems) from None

    def _new_problems(self, loaded: LoadedConfig, before: _ReleaseRun | None) -> tuple[PatchProblem, ...]:
        """Why the config does not generate, and what breaks a contract that the old release's module honours: to tell
        which findings are new, a config that has some is generated against the old release as well."""
        generation = self.new.generation(loaded)
        old = before.generation(loaded) if before is not None and generation.errors else None
        return (*generation.problems, *generation.new_errors(old))


class _ReleaseRun:
    """The configs of a selection against one release, less those that nobody wants generated."""

    def __init__(self, selection: PackageConfigs, release: Release, is_wanted: Callable[[LoadedConfig], bool]) -> None:
        self.selection, self.release, self.is_wanted = selection, release, is_wanted
        self.project = ReleaseProject(selection.project, release, SourceCache(), selection.sources)

    def generation(self, loaded: LoadedConfig) -> Generation:
        """What becomes of a config."""
        message = f"{self.selection.package} {self.release.version} has no module '{loaded.config.source_module}'"
        absent = PatchProblem(Problem(message, loaded.config.location), None)
        return self._generations.get(config_key(loaded)) or Generation(problems=(absent,))

    @cached_property
    def _generations(self) -> dict[ConfigKey, Generation]:
        there = (c for c in self.selection.configs if self.project.module(c) is not None)
        return self.project.generate({config_key(c): c for c in there if self.is_wanted(c)})


def _is_on_deleted(entry: PatchProblem, loaded: LoadedConfig, verdicts: Sequence[PatchVerdict]) -> bool:
    """Whether a problem is one of an edit that goes."""
    if entry.patch is None:
        return False
    patch = patches_of(loaded)[entry.patch]
    deleted = (verdict for verdict in verdicts if verdict.rebase is not None and verdict.rebase.is_deletion)
    return any(is_on(verdict, patch, loaded) for verdict in deleted)


def _settled(findings: Sequence[Finding], rebase: Rebase | None) -> Iterator[Finding]:
    """The findings; one of a target whose change the replacement has already needs no work."""
    has_all = rebase is not None and not rebase.diff and rebase.merged.is_clean and rebase.merged.how != "kept"
    for finding in findings:
        if has_all and finding.relation == "target" and finding.kind != "moved":
            rests = (
                "the replacement has it: upstream's change leaves its text as it is, with the same values in each name"
            )
            yield replace(finding, detail="; ".join(filter(None, [finding.detail, rests])), risk="safe")
        else:
            yield finding
