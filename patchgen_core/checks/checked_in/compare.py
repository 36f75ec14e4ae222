"""Is what is checked in what a config makes? If not, why; and mending it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from patchgen_core.build.results import Artifact, ConfigResult, DriftReport, FileDrift, Outcome
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.files import read_text, write_files
from patchgen_core.project.project import Project


def compare(outcome: Outcome, with_diffs: bool = True) -> ConfigResult:
    """The verdict on one config; ``with_diffs`` is whether anybody looks at what a file that differs should be."""
    artifact = outcome.artifact
    if artifact is None:
        return ConfigResult(outcome, "error")
    try:
        files = _read_files(artifact, with_diffs)
    except PatchgenError as error:
        return ConfigResult(replace(outcome, problems=error.problems), "error")
    drifted = tuple(file for file in files if file.old != file.new)
    if not drifted:
        return ConfigResult(outcome, "clean")
    from patchgen_core.checks.checked_in.causes import explain
    from patchgen_core.checks.checked_in.other_generator import explain_other_generator
    from patchgen_core.syntax.header import is_of_another_generator

    old, old_diff = files[0].old, files[1].old if len(files) > 1 else None
    if old is None or not is_of_another_generator(old):
        return ConfigResult(outcome, "drifted", explain(artifact, old, old_diff), drifted)
    cause, aligned = explain_other_generator(artifact, old)
    drifted = (replace(files[0], aligned=aligned), *drifted[1:])
    return ConfigResult(outcome, "drifted", explain(artifact, old, old_diff, cause), drifted)


def _read_files(artifact: Artifact, with_diffs: bool) -> list[FileDrift]:
    """The files of a config as they are and as they should be; a PatchgenError where one cannot be read.

    A diff takes as long to make as all else. One that does not add the line with the module's hashes is not what it
    should be, and that is all that is said of it without ``with_diffs``.
    """
    if not with_diffs and artifact.has_diff:
        from patchgen_core.syntax.header import fingerprint_line

        old = read_text(artifact.diff_path)
        if old != "" and f"\n+{fingerprint_line(artifact.text)}\n" not in (old or ""):
            module = FileDrift(artifact.path, read_text(artifact.path), artifact.text)
            return [module, FileDrift(artifact.diff_path, old, "")]
    return [FileDrift(path, read_text(path), text) for path, text in artifact.output()]


def fix(report: DriftReport, prune: bool = False) -> DriftReport:
    """Write what drifted, and with ``prune`` remove orphans; configs with errors are left alone.

    Copies are kept of what was edited by hand. A config whose files cannot be written becomes an error of the report;
    an orphan that cannot be removed raises one.
    """
    project = report.project
    results = tuple(fix_result(result, project) for result in report.results) if project else ()
    if not prune:
        return replace(report, results=results)
    remove(report.orphans)
    return DriftReport(results, removed=report.orphans, project=project)


def remove(orphans: Iterable[Path]) -> None:
    """Remove files that no config makes; a PatchgenError where one cannot be removed."""
    for path in orphans:
        try:
            path.unlink(missing_ok=True)  # another run may have been here
        except OSError as error:
            raise PatchgenError(f"cannot be removed: {error.strerror}", Location(str(path))) from None


def fix_result(result: ConfigResult, project: Project) -> ConfigResult:
    """Write one config's files if they drifted; an error of the result when they cannot be written.

    Of a module that was edited by hand a copy is kept.
    """
    if result.status != "drifted":
        return result
    from patchgen_core.build.hand_edits import copy_path, is_as_written

    files, copies = [(file.path, file.new) for file in result.files], list[Path]()
    try:
        old = next((file.old for file in result.files if file.path.suffix == ".py"), None)
        if old and any(cause.kind == "edited by hand" for cause in result.causes) and not is_as_written(old):
            copies.append(copy_path(project, result.files[0].path, old))
            files.insert(0, (copies[0], old))
        write_files(files)
    except PatchgenError as error:
        problems = (*result.outcome.problems, *error.problems)
        return replace(result, status="error", outcome=replace(result.outcome, problems=problems))
    return replace(result, status="fixed", copies=tuple(copies))


def bare(result: ConfigResult) -> ConfigResult:
    """A result without what it was made from, which holds syntax trees."""
    if result.outcome.loaded is None and result.outcome.artifact is None:
        return result
    return replace(result, outcome=replace(result.outcome, loaded=None, artifact=None))
