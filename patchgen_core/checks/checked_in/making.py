"""Making configs, each beside what is checked in: together, or in batches that forks of this process take part in."""

from __future__ import annotations

import gc
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.cache import Cache
from patchgen_core.build.inputs import InputReader
from patchgen_core.build.results import ConfigResult, Outcome, Progress
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.compare import bare, compare
from patchgen_core.config.loading import Loader
from patchgen_core.syntax.source import SourceCache
from patchgen_core.workers.forks import work_with_forks

MOST_TOGETHER = 15
"""More configs than this are made in batches where what they are made from is not asked for: more hold more syntax
trees, and fewer parse more often what several share, and start ruff more often."""

Results = dict[Path, list[ConfigResult]]


class Onlooker(Protocol):
    """Looks at configs in the process that has made them, before what they are made from is forgotten."""

    @property
    def looked_at(self) -> Collection[Path]:
        """The config files of which it has heard."""

    def look(self, results: Results) -> Any:
        """What there is to say of the config files of a batch; it can be pickled."""

    def hear(self, said: Any) -> None:
        """Learn, in the process that asked for the results, what was said of a batch here or elsewhere."""

    def forget(self, paths: Iterable[Path]) -> None:
        """Forget what was said of config files, which are made anew."""


def make_together(
    selection: Selection, paths: Sequence[Path], loader: Loader | None = None, progress: Progress | None = None
) -> Results:
    """The results of config files, with what they were made from.

    Raises:
        PatchgenError: ruff cannot run.
    """
    sources = SourceCache()
    loader = loader or Loader(selection.project, sources)
    results: Results = {path: [] for path in paths}
    for outcome in make_artifacts(replace(selection, configs=paths), loader, progress):
        results[outcome.path].append(compare(outcome))
    sources.clear()
    return results


def make_in_batches(
    selection: Selection,
    paths: Sequence[Path],
    cache: Cache | None,
    reader: InputReader,
    progress: Progress | None = None,
    forks: int = 0,
    loader: Loader | None = None,
    onlooker: Onlooker | None = None,
) -> Results:
    """The results of config files, without what they were made from; those that a fork dies of are left out.

    Args:
        cache: keeps what is made.
        forks: how many forks of this process take part.
        onlooker: hears what it says itself of what is made.

    Raises:
        PatchgenError: ruff cannot run.
    """
    size = _batch_size(len(paths), forks + 1)
    batches = [paths[start : start + size] for start in range(0, len(paths), size)]
    last: list[Results] = []  # which a fork leaves to the system: taking syntax trees apart takes its time

    def make(numbers: Iterable[int]) -> tuple[Results, list[Any], str]:
        results: Results = {}
        said: list[Any] = []
        for number in numbers:
            last.clear()
            if results:
                gc.collect(0)  # what the last batch was loaded into, which refers to itself
            told = _go_on(progress, number * size, len(paths))
            last.append(make_together(selection, batches[number], loader, told))
            if cache is not None:
                cache.keep(selection, list_outcomes(last[0]), reader)
            if onlooker is not None:
                said.append(onlooker.look(last[0]))
            results |= {path: list(map(bare, of_path)) for path, of_path in last[0].items()}
        return results, said, cache.failure if cache is not None else ""

    results: Results = {}
    for made, said, failure in work_with_forks(len(batches), forks, make, last.clear):
        results |= made
        if onlooker is not None:
            for each in said:
                onlooker.hear(each)
        if cache is not None:
            cache.failure = cache.failure or failure
    return results


def list_outcomes(results: Results) -> list[Outcome]:
    """What became of the configs."""
    return [result.outcome for result in chain.from_iterable(results.values())]


def _batch_size(count: int, processes: int) -> int:
    """How many configs are made together, so that all processes have as much to do."""
    rounds = max(math.ceil(count / (processes * MOST_TOGETHER)), 1)
    return max(math.ceil(count / (processes * rounds)), 1)


def _go_on(progress: Progress | None, start: int, total: int) -> Progress | None:
    """Progress with a batch, told as that with all: each batch before it is somebody's, and done or soon will be."""
    return None if progress is None else lambda done, _: progress(start + done, total)
