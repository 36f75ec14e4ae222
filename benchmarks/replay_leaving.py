"""What a person would have to carry over is left out of the replay's configs: what comes after is about the rest."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.replay_records import PatchRecord
from patchgen_core.build.artifacts import make_outcomes
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.config.loading import LoadedConfig
from patchgen_core.errors import Problem
from patchgen_core.files import write_files
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.package_configs import select_configs
from patchgen_core.upstream.releases import Release

ROUNDS = 12
"""How often patches are left out of a config until it generates."""
_STILL_USED = re.compile(r"(exclude_from_output|drop_import_names) takes '(\w+)' out, but upstream's '([\w.]+)'")
_UNKNOWN = re.compile(r"(exclude_from_output|drop_import_names): upstream (?:defines no|does not know) '(\w+)'")
_FIELDS = {"exclude_from_output": "exclude", "drop_import_names": "drop_imported_names"}
"""What a config keeps the names of each call in."""


def make_all(project: Project, configs: Sequence[LoadedConfig], release: Release) -> dict[str, tuple[str, ...]]:
    """Write the generated files of configs against a release; returns what is wrong with them, without lines."""
    there = replace(project, upstream=(release.folder,))
    return {label: tuple(describe_problem(p) for p in problems) for label, problems in _make(there, configs).items()}


def _make(project: Project, configs: Sequence[LoadedConfig]) -> dict[str, list[Problem]]:
    sources = SourceCache()
    contracts = Contracts(project, sources)
    problems: dict[str, list[Problem]] = {}
    for outcome in make_outcomes(project, configs, sources):
        problems[outcome.label] = list(outcome.problems)
        if outcome.artifact is not None:
            problems[outcome.label] += contracts.examine(outcome.artifact, outcome.path).errors
            write_files(outcome.artifact.output(save_diff=True))
    return problems


def describe_problem(problem: Problem) -> str:
    """A problem's title without the numbers of lines, which a step moves."""
    words = problem.title.split()
    return " ".join(word for before, word in zip(["", *words], words) if before != "line")


@dataclass(frozen=True)
class Leaving:
    """Leaves out the patches that need a person, and those that do not generate without them.

    Attributes:
        before: by config, what was wrong with it at the old release.
        told: by config, what the report said is wrong with it at the new one.
    """

    project: Project
    release: Release
    before: Mapping[str, Collection[str]]
    told: Mapping[str, Collection[str]]

    def new_texts(self, label: str, problems: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
        """What is wrong with a config and was not before."""
        return tuple(sorted({*problems.get(label, ())} - {*self.before.get(label, ())}))

    def run(
        self, records: Sequence[PatchRecord], wanted: Collection[str]
    ) -> tuple[list[PatchRecord], dict[str, tuple[str, ...]]]:
        """The records of patches after that, and what is wrong with the configs then; makes all that are wanted."""
        targets = {(r.config, r.target) for r in records if r.how == "conflict" and r.config in wanted}
        hit = {config for config, _ in targets}
        reasons: dict[tuple[str, str], str] = {}
        there = replace(self.project, upstream=(self.release.folder,))
        problems: dict[str, list[Problem]] = {}
        affected = {*wanted}
        names: dict[str, set[tuple[str, str]]] = {}
        dropped: set[tuple[str, str]] = set()
        given_back: dict[str, set[str]] = {}
        for _ in range(ROUNDS):
            dropped |= targets
            for loaded in self._configs(affected):
                drop(loaded, [target for config, target in targets if config == loaded.label])
                take_back(loaded, names.get(loaded.label, ()))
                given_back.setdefault(loaded.label, set()).update(name for _, name in names.get(loaded.label, ()))
            configs = self._configs(affected)
            problems |= _make(there, configs)
            blamed = [found for c in configs for found in self._blamed(c, problems[c.label], c.label in hit)]
            reasons |= {key: text for key, text in blamed if text in self.told[key[0]]}
            hit |= {config for config, _ in reasons}
            targets = {key for key, _ in blamed}
            left = {c.label: {target for config, target in dropped if config == c.label} for c in configs}
            names = {
                c.label: self._idle_names(c.label, problems[c.label], left[c.label], given_back[c.label])
                for c in configs
            }
            affected = {*(config for config, _ in targets), *(label for label in names if names[label])}
            if not affected:
                break
        present = {(c.label, patch.target) for c in self._configs(wanted) for patch in c.config.patches}
        results = []
        for record in records:
            key = record.config, record.target
            if key in reasons and record.how != "conflict":
                record = replace(record, how="conflict", reasons=(reasons[key],))
            elif record.how not in ("conflict", "deleted") and key not in present and record.config in hit:
                record = replace(record, how="fell")
            results.append(record)
        lost = {label for label in wanted if label not in problems}
        unloaded = "; ".join(problem.title for problem in select_configs(self.project).failed) if lost else ""
        texts = dict.fromkeys(lost, (f"does not load: {unloaded}",))
        return results, {**texts, **{label: tuple(map(describe_problem, each)) for label, each in problems.items()}}

    def _configs(self, wanted: Collection[str]) -> list[LoadedConfig]:
        modules = {label.partition(":")[0] for label in wanted}
        paths = [path for path in self.project.find_configs() if self.project.module_name(path) in modules]
        configs = select_configs(self.project, paths).configs if paths else ()
        return [loaded for loaded in configs if loaded.label in wanted]

    def _idle_names(
        self, label: str, problems: Iterable[Problem], dropped: Collection[str], given_back: Collection[str]
    ) -> set[tuple[str, str]]:
        """The names that calls of a config take out of upstream's module for the sake of patches that are left out, or
        of classes that were given back for that, each with its call."""
        texts = {*map(describe_problem, problems)} - {*self.before.get(label, ())} if dropped else set()
        idle = {*dropped, *given_back}
        used = [m for text in texts for m in _STILL_USED.finditer(text) if idle & {m[3], m[3].partition(".")[0]}]
        unknown = [match for text in texts for match in _UNKNOWN.finditer(text)]
        return {(match[1], match[2]) for match in (*used, *unknown)}

    def _blamed(
        self, loaded: LoadedConfig, problems: Iterable[Problem], is_hit: bool
    ) -> Iterator[tuple[tuple[str, str], str]]:
        """The patches of a config that new problems are about: those that were told, and, where something was left
        out already, all others as well."""
        for problem in problems:
            text = describe_problem(problem)
            if text not in self.before.get(loaded.label, ()) and (is_hit or text in self.told[loaded.label]):
                yield from (((loaded.label, target), text) for target in _blamed(loaded, [problem]))


def _blamed(loaded: LoadedConfig, problems: Iterable[Problem]) -> set[str]:
    """The targets of the patches that problems are about: of the last that is declared before the line."""
    found = set()
    for problem in problems:
        place = problem.location
        lines = [
            (patch.location.line, patch.target)
            for patch in loaded.config.patches
            if place and patch.location and patch.location.file == place.file and patch.location.line <= place.line
        ]
        found |= {max(lines)[1]} if lines else set()
    return found


def leave_out(project: Project, release: Release, targets: Collection[tuple[str, str]]) -> None:
    """Leave patches out, by config and target, of configs that are for a release, which are made anew."""
    labels = {config for config, _ in targets}
    records = [PatchRecord(config, target, "", "", "", "conflict") for config, target in targets]
    configs = [loaded for loaded in select_configs(project).configs if loaded.label in labels]
    Leaving(project, release, make_all(project, configs, release), dict.fromkeys(labels, ())).run(records, labels)


def drop(loaded: LoadedConfig, targets: Sequence[str]) -> None:
    """Have a config take back its patches on some targets."""
    if targets:
        names = ", ".join(map(repr, sorted(targets)))
        line = f"{loaded.name}.patches[:] = [p for p in {loaded.name}.patches if p.target not in ({names},)]\n"
        with loaded.path.open("a", encoding="utf-8") as file:
            file.write(f"\n# What a person would have to carry over\n{line}")


def take_back(loaded: LoadedConfig, names: Iterable[tuple[str, str]]) -> None:
    """Have a config not take some names out of upstream's module, each with the call that does."""
    for call, name in sorted(names):
        field = f"{loaded.name}.{_FIELDS[call]}"
        with loaded.path.open("a", encoding="utf-8") as file:
            file.write(f"\n# Nothing is in its place\n{field}[:] = [n for n in {field} if n != {name!r}]\n")
