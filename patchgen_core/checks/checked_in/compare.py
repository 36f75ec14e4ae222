"""Does what is checked in equal what the configs make? If not, why, and how to mend it."""

from __future__ import annotations

import contextlib
import gc
import io
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.build.cache import Cache
from patchgen_core.build.inputs import InputReader
from patchgen_core.build.results import Artifact, ConfigResult, DriftReport, FileDrift, Outcome, Progress
from patchgen_core.build.selection import Selection
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.files import read_text, write_files
from patchgen_core.project.file_tree import walk_files
from patchgen_core.project.project import OUTPUT_FOLDER, Project

if TYPE_CHECKING:
    from patchgen_core.checks.checked_in.parallel import ChunkReport, ConfigChunk
    from patchgen_core.config.loading import Loader

MANY = 64
"""More configs than this are made in processes beside this one, where what they are made from is not asked for."""

TOGETHER = 6
"""How many configs are made together where what they are made from is not asked for: more hold more syntax trees, and
fewer start ruff more often."""

_Results = dict[Path, list[ConfigResult]]


def check(
    selection: Selection,
    *,
    loader: Loader | None = None,
    progress: Progress | None = None,
    cache: Cache | None = None,
    artifacts: bool | Collection[Path] = False,
    made: Mapping[Path, list[ConfigResult]] | None = None,
) -> DriftReport:
    """Compare what is on disk with a fresh generation; for all that a project makes, orphans are looked for as well.

    Args:
        loader: loads the configs; an outcome that is made with it holds what it was made from.
        cache: keeps what is made. None keeps nothing.
        artifacts: have every outcome hold what it makes, or those of some files. Of others, what the cache knows to be
            clean is not made, and many are made in other processes.
        made: results that are known, by config file.

    Raises:
        PatchgenError: there is no config, or ruff cannot run.
    """
    paths = selection.find_configs()
    reader = InputReader(selection.project)
    results: _Results = {path: made[path] for path in paths if path in made} if made else {}
    if artifacts is not True:
        others = [path for path in _without(paths, results) if not artifacts or path not in artifacts]
        results |= _find_clean(selection, others, cache, reader)
        results |= _check_apart(selection, _without(others, results), cache, progress)
    made_together: set[Path] = set()
    is_held = bool(artifacts) or loader is not None
    for batch in _batches(_without(paths, results), is_held):
        batch_results = _make(selection, batch, loader, progress)
        if cache is not None:
            cache.keep(selection, _outcomes(batch_results), reader)
        made_together = set(batch_results)
        results |= batch_results if is_held else _bare_results(batch_results)
    rivals = find_rivals(results)
    if not rivals.issubset(made_together):
        results |= _make(selection, [path for path in paths if path in rivals], loader, progress)
    in_order = {path: results[path] for path in paths}
    orphans = find_orphans(selection.project, _outcomes(in_order)) if selection.is_whole else ()
    return DriftReport(tuple(chain.from_iterable(in_order.values())), orphans, project=selection.project)


def _find_clean(selection: Selection, paths: Sequence[Path], cache: Cache | None, reader: InputReader) -> _Results:
    if cache is None:
        return {}
    results = {path: cache.find(selection, path, reader) for path in paths}
    return {path: of_path for path, of_path in results.items() if of_path}


def _check_apart(
    selection: Selection, paths: Sequence[Path], cache: Cache | None, progress: Progress | None
) -> _Results:
    """The results of many config files, made in processes beside this one; few are not worth the start of these."""
    if len(paths) <= MANY:
        return {}
    from patchgen_core.checks.checked_in.parallel import ConfigChunk, check_in_workers

    folder = cache.folder if cache is not None else None
    return check_in_workers(ConfigChunk(replace(selection, configs=paths), folder), progress)


def check_chunk(chunk: ConfigChunk) -> ChunkReport:
    """What a worker does: check the configs of a chunk together; a PatchgenError where ruff cannot run."""
    from patchgen_core.checks.checked_in.parallel import ChunkReport

    gc.disable()  # syntax trees set the search for cycles off again and again, which finds none
    cache = Cache(chunk.selection.project, chunk.cache_folder) if chunk.cache_folder is not None else None
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        report = check(chunk.selection, cache=cache)
    results = tuple(map(bare, report.results))
    del report
    gc.collect()
    return ChunkReport(results, stderr.getvalue())


def _batches(paths: Sequence[Path], is_held: bool) -> list[Sequence[Path]]:
    size = max(len(paths), 1) if is_held else TOGETHER
    return [paths[start : start + size] for start in range(0, len(paths), size)]


def _bare_results(results: _Results) -> _Results:
    return {path: [bare(result) for result in of_path] for path, of_path in results.items()}


def _without(paths: Sequence[Path], results: _Results) -> list[Path]:
    return [path for path in paths if path not in results]


def _outcomes(results: _Results) -> list[Outcome]:
    return [result.outcome for result in chain.from_iterable(results.values())]


def bare(result: ConfigResult) -> ConfigResult:
    """A result without what it was made from, which holds syntax trees."""
    if result.outcome.loaded is None and result.outcome.artifact is None:
        return result
    return replace(result, outcome=replace(result.outcome, loaded=None, artifact=None))


def _make(selection: Selection, paths: Sequence[Path], loader: Loader | None, progress: Progress | None) -> _Results:
    from patchgen_core.build.artifacts import make_artifacts
    from patchgen_core.config.loading import Loader
    from patchgen_core.syntax.source import SourceCache

    sources = SourceCache()
    loader = loader or Loader(selection.project, sources)
    results: _Results = {path: [] for path in paths}
    for outcome in make_artifacts(replace(selection, configs=paths), loader, progress):
        results[outcome.path].append(compare(outcome))
    sources.clear()
    return results


def find_rivals(results: _Results) -> set[Path]:
    """Config files that write a file which another one writes as well: an error that only shows side by side."""
    owners: dict[str, set[Path]] = {}
    for path, of_path in results.items():
        for result in of_path:
            if result.outcome.output is not None:
                owners.setdefault(os.path.realpath(result.outcome.output), set()).add(path)
    return {path for paths in owners.values() if len(paths) > 1 for path in paths}


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


def find_orphans(project: Project, outcomes: Iterable[Outcome]) -> tuple[Path, ...]:
    """Generated files in the project's output folders that no config makes any more, given an outcome for each of its
    configs. Folders of those that name no output are left out."""
    expected: set[str] = set()
    unknown: set[Path] = set()
    for outcome in outcomes:
        if outcome.output is not None:
            expected.add(os.path.splitext(outcome.output)[0])
        else:
            unknown.add(project.output_folder(outcome.path))
    root, folder = os.fspath(project.search_root), f"{os.sep}{OUTPUT_FOLDER}{os.sep}"
    # in text: taking the paths of a large project apart costs as much as all else that an unchanged check does
    candidates = (path for path in walk_files(project.search_root) if folder in os.sep + str(path)[len(root) :])
    others = (path for path in candidates if os.path.splitext(path)[0] not in expected)
    orphans = (path for path in others if not unknown.intersection(path.parents) and _is_generated(path))
    return tuple(sorted(orphans))


def _is_generated(path: Path) -> bool:
    if path.suffix not in (".py", ".diff"):
        return False
    from patchgen_core.syntax.header import is_generated

    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            head = file.read(2000)
    except OSError:  # a dangling link
        return False
    return is_generated(head) if path.suffix == ".py" else f"\n+++ {OUTPUT_FOLDER}/" in head
