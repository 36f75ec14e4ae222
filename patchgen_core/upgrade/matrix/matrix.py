"""Configs against releases of upstream: what works where, and since when or until when."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from patchgen_core.build.results import Progress
from patchgen_core.config.loading import LoadedConfig
from patchgen_core.errors import PatchgenError
from patchgen_core.upgrade.matrix.bisecting import Gap, Turn, find_turns
from patchgen_core.upgrade.matrix.compatibility import CompatibilityPool, ConfigBase
from patchgen_core.upgrade.matrix.config_cells import BROKEN, ConfigCells, judge, reasons_of
from patchgen_core.upgrade.matrix.release_columns import Fetching, ReleaseColumn, fetch, known_versions
from patchgen_core.upgrade.matrix.results import MatrixReport, MatrixRow, PatchRow
from patchgen_core.upgrade.package_configs import ConfigKey, PackageConfigs, config_key, patches_of
from patchgen_core.upgrade.release_module import base_version, recorded_module, release_at_hand
from patchgen_core.upstream.releases import Release, Releases
from patchgen_core.upstream.versions import parse_version, same_version

Row = TypeVar("Row", MatrixRow, PatchRow)
Edge = tuple[ConfigKey, int | None, bool]
"""Where a patch of a config, by its number, or without one the config, stops to work (True) or starts to."""


def make_matrix(
    selection: PackageConfigs,
    columns: Sequence[ReleaseColumn],
    releases: Releases,
    *,
    bisect: bool = True,
    fetching: Fetching = lambda _: None,
    progress: Progress | None = None,
    cluster: str = "",
) -> MatrixReport:
    """Try configs with releases, given in ascending order.

    A config that works in one column and breaks in the next one, or the other way around, is tried with releases
    between them by bisection, each of its patches by itself. That takes it for granted that each turns once between
    two columns. `progress` is told how many of how many cells are done. `cluster` is the address of a Ray cluster on
    whose nodes that is done.

    Raises:
        PatchgenError: ruff cannot run, a setting names no contract rule, or the cluster cannot be used.
    """
    bases = {config_key(loaded): _base(selection, loaded, columns, releases) for loaded in selection.configs}
    with ExitStack() as stack:
        pool = CompatibilityPool(selection, bases, stack, cluster)
        run = _Matrix(selection, columns, releases, bases, pool, fetching)
        run.fill(progress)
        turns = run.turns(bisect)
        rows = sorted((run.row(loaded, turns) for loaded in selection.configs), key=lambda row: row.config)
        return MatrixReport(
            selection.package,
            tuple(column.label for column in columns),
            tuple(rows),
            selection.skipped,
            selection.failed,
            run.tried,
        )


def _base(
    selection: PackageConfigs, loaded: LoadedConfig, columns: Sequence[ReleaseColumn], releases: Releases
) -> ConfigBase:
    """What a config's generated file is based on: what is installed, where it does not say. Where no release of that
    version is at hand or to be downloaded, the checked-in files may hold the module."""
    version = base_version(selection.project, loaded, releases)
    if not version:
        return ConfigBase()
    others = [column.release for column in columns if column.release.origin != "folder"]
    try:
        return ConfigBase(version, release_at_hand(releases, version, others) or releases.find(version))
    except PatchgenError:
        return ConfigBase(version)


class _Matrix:
    def __init__(
        self,
        selection: PackageConfigs,
        columns: Sequence[ReleaseColumn],
        releases: Releases,
        bases: Mapping[ConfigKey, ConfigBase],
        pool: CompatibilityPool,
        fetching: Fetching,
    ) -> None:
        self.selection, self.releases, self.bases = selection, releases, bases
        self.pool, self.fetching = pool, fetching
        self.columns = [column.label for column in columns]
        self.points = {column.label: column.release for column in columns}
        self.base_labels = {key: self._label(base.release) for key, base in bases.items()}
        configs = {config_key(loaded): loaded for loaded in selection.configs}
        self.names = {key: [patch.target for patch in patches_of(loaded)] for key, loaded in configs.items()}
        self._cells: dict[tuple[ConfigKey, str], ConfigCells] = {}

    def _label(self, release: Release | None) -> str:
        """What the release that a config is based on is called; empty when there is none."""
        if release is None:
            return ""
        for label, points in self.points.items():
            if points.folder == release.folder:
                return label
        label = release.version if release.version not in self.points else f"{release.version} ({release.origin})"
        self.points[label] = release
        return label

    @property
    def tried(self) -> tuple[str, ...]:
        """The versions that were looked at beside those of the columns."""
        return tuple(label for label in self._ordered(self.points) if label not in self.columns)

    def _ordered(self, labels: Iterable[str]) -> list[str]:
        return sorted(labels, key=lambda label: parse_version(self._version(label)))

    def _version(self, label: str) -> str:
        return self.points[label].version if label in self.points else label

    def fill(self, progress: Progress | None) -> None:
        """Try every config with every column, and with what it is based on."""
        keys_by_label = {label: set(self.names) for label in self.columns}
        for key, label in self.base_labels.items():
            if label:
                keys_by_label.setdefault(label, set()).add(key)
        self.pool.check([(self.points[label], keys) for label, keys in keys_by_label.items()], progress)

    def cells(self, key: ConfigKey, label: str) -> ConfigCells:
        """What a release is to a config that was tried with it."""
        if (key, label) not in self._cells:
            base = self.base_labels[key]
            old = self.pool.result(self.points[base], key) if base else None
            new = self.pool.result(self.points[label], key)
            self._cells[key, label] = judge(label, new, old, self.names[key])
        return self._cells[key, label]

    # --- since when, until when ----------------------------------------------------------------------------

    def turns(self, bisect: bool) -> dict[Edge, Turn]:
        """Where configs and patches stop and start to work."""
        gaps = dict(self._gaps())
        if not gaps:
            return {}
        versions, is_complete = self._between()
        turns = find_turns(gaps, versions, self._ask if bisect else lambda questions: dict.fromkeys(questions))
        return turns if is_complete else {edge: replace(turn, is_exact=False) for edge, turn in turns.items()}

    def _gaps(self) -> Iterator[tuple[Edge, Gap]]:
        for key, names in self.names.items():
            base = self.base_labels[key]
            labels = self._ordered({*self.columns, *([base] if base else [])})
            at = labels.index(base) if base else None
            for patch in (None, *range(len(names))):
                works = [self._works(key, patch, label) for label in labels]
                pairs = [
                    (n, Gap(labels[n], labels[n + 1])) for n in range(len(labels) - 1) if works[n] != works[n + 1]
                ]
                breaking = [gap for n, gap in pairs if works[n] and (at is None or n >= at)]
                working = [gap for n, gap in pairs if not works[n] and (at is None or n <= at)]
                yield from (((key, patch, True), gap) for gap in breaking[:1])
                yield from (((key, patch, False), gap) for gap in working[-1:])

    def _works(self, key: ConfigKey, patch: int | None, label: str) -> bool:
        cells = self.cells(key, label)
        return (cells.config if patch is None else cells.patches[patch]).state not in BROKEN

    def _between(self) -> tuple[list[str], bool]:
        """All versions there are, and whether they are known to be all."""
        try:
            published = known_versions(self.releases)
        except PatchgenError:
            published = ()
        released = [release.version for release in self.points.values() if release.origin != "folder"]
        others = [version for version in published if not any(same_version(version, other) for other in released)]
        return self._ordered([*self.points, *others]), bool(published) and not self.releases.offline

    def _ask(self, questions: Mapping[str, Collection[Edge]]) -> dict[str, set[Edge] | None]:
        """Which configs and patches still, or do not yet, work in some versions."""
        releases, _ = fetch(self.releases, questions.keys() - self.points.keys(), self.fetching)
        self.points |= {release.version: release for release in releases}
        had = {version: edges for version, edges in questions.items() if version in self.points}
        self.pool.check([(self.points[version], {edge[0] for edge in edges}) for version, edges in had.items()])
        answers: dict[str, set[Edge] | None] = dict.fromkeys(questions)
        for version, edges in had.items():
            answers[version] = {edge for edge in edges if self._works(edge[0], edge[1], version) == edge[2]}
        return answers

    # --- rows ----------------------------------------------------------------------------------------------

    def row(self, loaded: LoadedConfig, turns: Mapping[Edge, Turn]) -> MatrixRow:
        """A config's row."""
        key = config_key(loaded)
        results = [self.cells(key, label) for label in self.columns]
        patches = []
        for number, patch in enumerate(patches_of(loaded)):
            cells = tuple(cell.patches[number] for cell in results)
            location = patch.location or loaded.config.location
            patch_row = PatchRow(patch.kind, patch.target, location, cells=cells)
            patches.append(self._with_turns(patch_row, (key, number), turns))
        row = MatrixRow(
            loaded.label,
            str(loaded.path),
            loaded.config.location.line,
            loaded.config.source_module,
            self.bases[key].version,
            tuple(patches),
            self._notes(loaded),
            cells=tuple(cell.config for cell in results),
        )
        return self._with_turns(row, (key, None), turns)

    def _with_turns(self, row: Row, thing: tuple[ConfigKey, int | None], turns: Mapping[Edge, Turn]) -> Row:
        breaking, working = turns.get((*thing, True)), turns.get((*thing, False))
        if breaking is not None:
            row = replace(row, last_working=breaking.before, first_broken=breaking.after)
        if working is not None:
            row = replace(row, last_broken=working.before, first_working=working.after)
        is_exact = all(turn.is_exact for turn in (breaking, working) if turn is not None)
        broken = row.first_broken or row.last_broken
        return replace(row, is_exact=is_exact, reasons=self._reasons(*thing, broken) if broken else ())

    def _reasons(self, key: ConfigKey, patch: int | None, label: str) -> tuple[str, ...]:
        cells = self.cells(key, label)
        if patch is not None:
            return reasons_of(cells.patches[patch])
        return reasons_of(cells.config, cells.general) if cells.general or cells.config.state == "absent" else ()

    def _notes(self, loaded: LoadedConfig) -> tuple[str, ...]:
        """What could not be compared, and why."""
        base = self.bases[config_key(loaded)]
        if base.release is not None:
            return ()
        if not base.version:
            return ("nothing is compared: no generated file says which version it is based on, and none is installed",)
        where = f"{self.releases.distribution} {base.version}, which it is based on, is not available"
        if recorded_module(self.selection.project, loaded, base.version) is None:
            return (f"nothing is compared: {where}",)
        return (f"{where}: compared with the checked-in files, and every error of a contract rule counts as new",)
