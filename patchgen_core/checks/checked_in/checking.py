"""Does what is checked in equal what the configs of a project make?"""

from __future__ import annotations

import gc
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.build.cache import Cache
from patchgen_core.build.inputs import InputReader
from patchgen_core.build.results import ConfigResult, DriftReport, Progress
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.compare import bare
from patchgen_core.checks.checked_in.outputs import find_orphans, find_rivals

if TYPE_CHECKING:
    from patchgen_core.checks.checked_in.making import Onlooker
    from patchgen_core.checks.checked_in.parallel import ChunkReport, ConfigChunk
    from patchgen_core.config.loading import Loader

MANY = 64
"""More configs than this are made in processes beside this one, where what they are made from is not asked for."""

FEW = 4
"""A process that makes fewer is not worth its start, however cheap that is."""

_Results = dict[Path, list[ConfigResult]]


def check(
    selection: Selection,
    *,
    loader: Loader | None = None,
    progress: Progress | None = None,
    cache: Cache | None = None,
    artifacts: bool | Collection[Path] = False,
    made: Mapping[Path, list[ConfigResult]] | None = None,
    with_forks: bool = False,
    onlooker: Onlooker | None = None,
) -> DriftReport:
    """Compare what is on disk with a fresh generation; for all that a project makes, orphans are looked for as well.

    Args:
        loader: loads the configs; an outcome that is made with it holds what it was made from.
        cache: keeps what is made. None keeps nothing.
        artifacts: have every outcome hold what it makes, or those of some files. Of others, what the cache knows to be
            clean is not made, and many are made in other processes.
        made: results that are known, by config file.
        with_forks: whether this process may be forked to make configs whose outcomes hold nothing. Of what they do
            there, nothing but their results and what they print reaches this process.
        onlooker: looks at all configs that are made, whose outcomes then hold nothing.

    Raises:
        PatchgenError: there is no config, or ruff cannot run.
    """
    paths = selection.find_configs()
    reader = InputReader(selection.project)
    results: _Results = {path: made[path] for path in paths if path in made} if made else {}
    is_held = bool(artifacts) or loader is not None
    if artifacts is not True:
        others = [path for path in _without(paths, results) if not artifacts or path not in artifacts]
        results |= _find_clean(selection, others, cache, reader)
        if is_held and onlooker is None:
            results |= _check_apart(selection, _without(others, results), cache, progress)
        else:
            missing = _without(paths, results)
            results |= _make_bare(selection, missing, cache, reader, loader, progress, with_forks, onlooker)
    results |= _make(selection, _without(paths, results), cache, reader, loader, progress)
    rivals = find_rivals(results)
    if any(result.status != "error" for path in rivals for result in results[path]):  # these were not made together
        results |= _make(selection, [path for path in paths if path in rivals], None, reader, loader)
        if onlooker is not None:
            onlooker.forget(rivals)
    in_order = {path: results[path] for path in paths}
    outcomes = (result.outcome for result in chain.from_iterable(in_order.values()))
    orphans = find_orphans(selection.project, outcomes) if selection.is_whole else ()
    return DriftReport(tuple(chain.from_iterable(in_order.values())), orphans, project=selection.project)


def _without(paths: Sequence[Path], results: _Results) -> list[Path]:
    return [path for path in paths if path not in results]


def _find_clean(selection: Selection, paths: Sequence[Path], cache: Cache | None, reader: InputReader) -> _Results:
    if cache is None:
        return {}
    results = {path: cache.find(selection, path, reader) for path in paths}
    return {path: of_path for path, of_path in results.items() if of_path}


def _make(
    selection: Selection,
    paths: Sequence[Path],
    cache: Cache | None,
    reader: InputReader,
    loader: Loader | None,
    progress: Progress | None = None,
) -> _Results:
    """The results of config files, with what they were made from."""
    if not paths:
        return {}
    from patchgen_core.checks.checked_in.making import list_outcomes, make_together

    results = make_together(selection, paths, loader, progress)
    if cache is not None:
        cache.keep(selection, list_outcomes(results), reader)
    return results


def _make_bare(
    selection: Selection,
    paths: Sequence[Path],
    cache: Cache | None,
    reader: InputReader,
    loader: Loader | None,
    progress: Progress | None,
    with_forks: bool,
    onlooker: Onlooker | None,
) -> _Results:
    """The results of config files, without what they were made from."""
    if not paths:
        return {}
    from patchgen_core.workers.forks import count_forks

    forks = count_forks(len(paths) // FEW) if with_forks else 0
    results = {} if forks or onlooker is not None else _check_apart(selection, paths, cache, progress)
    if missing := _without(paths, results):
        from patchgen_core.checks.checked_in.making import make_in_batches

        results |= make_in_batches(selection, missing, cache, reader, progress, forks, loader, onlooker)
    return results


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
    from patchgen_core.workers.held_back import hold_stderr_back

    gc.disable()  # syntax trees set the search for cycles off again and again, which finds none
    cache = Cache(chunk.selection.project, chunk.cache_folder) if chunk.cache_folder is not None else None
    with hold_stderr_back() as read_stderr:
        report = check(chunk.selection, cache=cache)
        stderr = read_stderr()
    results = tuple(map(bare, report.results))
    del report
    gc.collect()
    return ChunkReport(results, stderr)
