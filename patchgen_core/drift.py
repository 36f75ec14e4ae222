"""Does what is checked in equal what the configs make? If not, why, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from patchgen_core.artifacts import Outcome, Progress, make_artifacts, unified_diff, with_owners
from patchgen_core.causes import Cause, explain
from patchgen_core.codegen.header import copy_fingerprint, is_generated
from patchgen_core.errors import Location, PatchgenError, display_path
from patchgen_core.files import read_text, write_files
from patchgen_core.loading import Loader
from patchgen_core.project import OUTPUT_FOLDER, Project, no_configs, walk_files

Status = Literal["clean", "drifted", "fixed", "error"]


@dataclass(frozen=True)
class FileDrift:
    """A file that differs.

    Attributes:
        path: the file.
        old: its text; None when it does not exist.
        new: what it should be.
    """

    path: Path
    old: str | None
    new: str

    @property
    def diff(self) -> str:
        """Unified diff from what is there to what should be."""
        return self._diff(self.old or "")

    @property
    def telling_diff(self) -> str:
        """The diff without the header's hashes, which change with everything else."""
        old = copy_fingerprint(self.new, self.old or "")
        return self._diff(old) if old != self.new else self.diff

    def _diff(self, old: str) -> str:
        name = display_path(self.path)
        if old.replace("\r\n", "\n") == self.new:
            return ""
        diff = unified_diff(old, self.new, f"{name} (checked in)", f"{name} (generated now)")
        return with_owners(diff, self.new) if self.path.suffix == ".py" else diff


@dataclass(frozen=True)
class ConfigResult:
    """The gate's verdict on one config."""

    outcome: Outcome
    status: Status
    causes: tuple[Cause, ...] = ()
    files: tuple[FileDrift, ...] = ()


@dataclass(frozen=True)
class DriftReport:
    """The gate's verdict on a project.

    Attributes:
        results: one for each config.
        orphans: generated files that no config makes.
        removed: orphans that were removed.
    """

    results: tuple[ConfigResult, ...]
    orphans: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 clean, 1 drift, 2 a config with errors."""
        statuses = {result.status for result in self.results}
        if "error" in statuses:
            return 2
        return 1 if "drifted" in statuses or self.orphans else 0


def check(
    project: Project,
    configs: Sequence[Path] | None = None,
    *,
    name: str | None = None,
    output: Path | None = None,
    loader: Loader | None = None,
    progress: Progress | None = None,
) -> DriftReport:
    """Compare what is on disk with a fresh generation.

    Args:
        project: the project to check.
        configs: config files; all of the project's by default, and then orphans are looked for as well.
        name, output, loader, progress: as for :func:`~patchgen_core.artifacts.make_artifacts`.

    Raises:
        PatchgenError: the project has no configs, or ruff cannot run.
    """
    every = configs is None
    paths = project.find_configs() if configs is None else list(configs)
    if not paths:
        raise no_configs(project)
    outcomes = make_artifacts(project, paths, name=name, output=output, loader=loader, progress=progress)
    is_whole = every and output is None and name is None
    orphans = find_orphans(project, outcomes) if is_whole else ()
    return DriftReport(tuple(compare(outcome) for outcome in outcomes), orphans)


def compare(outcome: Outcome) -> ConfigResult:
    """The verdict on one config."""
    artifact = outcome.artifact
    if artifact is None:
        return ConfigResult(outcome, "error")
    try:
        found = [FileDrift(path, read_text(path), text) for path, text in artifact.files]
    except PatchgenError as error:
        return ConfigResult(replace(outcome, problems=error.problems), "error")
    drifted = tuple(file for file in found if file.old != file.new)
    if not drifted:
        return ConfigResult(outcome, "clean")
    return ConfigResult(outcome, "drifted", explain(artifact, found[0].old, found[1].old), drifted)


def fix(report: DriftReport, prune: bool = False) -> DriftReport:
    """Write what drifted, and with ``prune`` remove orphans; configs with errors are left alone.

    A config whose files cannot be written becomes an error of the report.

    Raises:
        PatchgenError: an orphan cannot be removed.
    """
    results = tuple(fix_result(result) for result in report.results)
    if not prune:
        return replace(report, results=results)
    remove(report.orphans)
    return DriftReport(results, (), report.orphans)


def remove(orphans: Iterable[Path]) -> None:
    """Remove files that no config makes.

    Raises:
        PatchgenError: one cannot be removed.
    """
    for path in orphans:
        try:
            path.unlink(missing_ok=True)  # another run may have been here
        except OSError as error:
            raise PatchgenError(f"cannot be removed: {error.strerror}", Location(str(path))) from None


def fix_result(result: ConfigResult) -> ConfigResult:
    """Write one config's files if they drifted; an error of the result when they cannot be written."""
    if result.status != "drifted":
        return result
    try:
        write_files((file.path, file.new) for file in result.files)
    except PatchgenError as error:
        problems = (*result.outcome.problems, *error.problems)
        return replace(result, status="error", outcome=replace(result.outcome, problems=problems))
    return replace(result, status="fixed")


def find_orphans(project: Project, outcomes: Iterable[Outcome]) -> tuple[Path, ...]:
    """Generated files in the project's output folders that no config makes any more.

    Args:
        project: the project.
        outcomes: one for each of its configs, as :func:`~patchgen_core.artifacts.announce` or
            :func:`~patchgen_core.artifacts.make_artifacts` give them. Folders of those that name no output are
            left out.
    """
    expected: set[Path] = set()
    unknown: set[Path] = set()
    for outcome in outcomes:
        if outcome.output is not None:
            expected.add(outcome.output.with_suffix(""))
        else:
            unknown.add(project.output_folder(outcome.path))
    found = []
    for path in walk_files(project.search_root):
        if (
            path.suffix not in (".py", ".diff")
            or OUTPUT_FOLDER not in path.relative_to(project.search_root).parts[:-1]
        ):
            continue
        if path.with_suffix("") in expected or unknown.intersection(path.parents):
            continue
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                head = file.read(2000)
        except OSError:  # a dangling link
            continue
        if is_generated(head) if path.suffix == ".py" else f"\n+++ {OUTPUT_FOLDER}/" in head:
            found.append(path)
    return tuple(sorted(found))
