"""One step of the replay: a project is carried over to a release by machine, and what was said of each patch is kept.

A patch that needs a person is left out from then on, so that what comes after is about the others.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.build.artifacts import make_outcomes
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.config.loading import LoadedConfig
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.files import write_files
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.package_configs import select_configs
from patchgen_core.upgrade.results import ConfigVerdict, PatchVerdict, Rebase
from patchgen_core.upgrade.upgrading import upgrade
from patchgen_core.upgrade.writing.applying import apply
from patchgen_core.upstream.module import find_upstream
from patchgen_core.upstream.releases import Release, Releases
from tests.upgrade.older import code
from tools.upgrade_walk import has_only_other_names

ROUNDS = 6
"""How often patches are left out of a config until it generates."""


@dataclass(frozen=True)
class PatchRecord:
    """What a step said of one patch, and did with it.

    Attributes:
        kind: the patch's, as in the header of the generated file.
        change: what upstream did to the target: see `upstream_change`.
        how: ``nothing`` to carry over, ``has it`` already, ``kept`` where upstream deprecated the target,
            ``rewritten`` names or places, merged by ``lines`` or ``syntax``; ``conflict`` where a person is needed;
            ``fell`` with one.
        reasons: why a person is needed.
        asked: what a person is asked to look at beside that, other than what a clean merge settles.
        is_as_people_wrote: whether it has the code that people wrote for this release; None where that is not known.
    """

    config: str
    target: str
    kind: str
    change: str
    verdict: str
    how: str
    reasons: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    is_as_people_wrote: bool | None = None


@dataclass(frozen=True)
class StepRecord:
    """One step.

    Attributes:
        broken: by config, what is wrong with it that the report does not have: it does not generate, or breaks a rule.
        ended: the configs that go no further, each with the first of all that is wrong with it.
    """

    old: str
    new: str
    patches: tuple[PatchRecord, ...]
    broken: Mapping[str, tuple[str, ...]]
    ended: Mapping[str, str]


def take_step(
    folder: Path, releases: Releases, old: str, new: str, ended: Iterable[str], people: Path | None = None
) -> StepRecord:
    """Carry over the project in a folder, in place.

    Args:
        ended: the configs that went no further before.
        people: the folder of configs' folders with what people made for the new release.

    Raises:
        PatchgenError: a release cannot be had, or a file cannot be written.
    """
    project, release = load_project(folder), releases.find(new)
    selection = select_configs(project)
    selection = replace(selection, configs=tuple(c for c in selection.configs if c.label not in {*ended}))
    before = make_all(project, selection.configs, releases.find(old))
    report = upgrade(selection, release, releases, since=old)
    applied = apply(project, report, release, allow_dirty=True)
    left = {rebase.location: reason for rebase, reason in applied.left}
    changes = _Changes(releases.find(old), release)
    records = [
        record_patch(config, patch, left, changes.of(config.module, patch.target))
        for config in report.configs
        for patch in config.patches
    ]
    told = {config.config: {*map(_describe, config.problems)} for config in report.configs}
    step = _Leaving(project, release, before, told)
    records, now = step.run(records, {loaded.label for loaded in selection.configs})
    if stopped := {label for label in now if step.new_texts(label, now)}:
        _carry_on(project, releases, release, old, stopped)
        records, later = step.run(records, stopped)
        now = {**now, **later}
    broken = {label: step.new_texts(label, now) for label in now}
    stops = {label: texts[0] for label, texts in broken.items() if texts}
    unsaid = {label: tuple(text for text in broken[label] if text not in told[label]) for label in stops}
    unsaid = {label: texts for label, texts in unsaid.items() if texts}
    return StepRecord(old, new, tuple(_compare(records, project, people)), unsaid, stops)


def _carry_on(project: Project, releases: Releases, release: Release, old: str, labels: Collection[str]) -> None:
    """Carry over what a config left for after its conflicts, such as a name in `exclude_from_output`, as the same
    command does when it is given again."""
    selection = select_configs(project)
    selection = replace(selection, configs=tuple(c for c in selection.configs if c.label in labels))
    report = upgrade(selection, release, releases, since=old)
    apply(project, report, release, allow_dirty=True)


def record_patch(config: ConfigVerdict, patch: PatchVerdict, left: Mapping[Location, str], change: str) -> PatchRecord:
    """What became of one patch, before anything is left out."""
    rebase, target = patch.rebase, patch.findings[0]
    reasons: list[str] = []
    if rebase is not None:
        reasons += [conflict.reason for conflict in rebase.merged.conflicts]
        reasons += [left[rebase.location]] if rebase.location in left and not reasons else []
    is_carried = rebase is not None and rebase.merged.is_clean
    if not is_carried and not reasons and target.risk == "must change":
        reasons.append(target.detail or target.kind)
    others = [finding for finding in patch.findings[is_carried or bool(reasons) :] if finding.risk != "safe"]
    asked = [str(finding) for finding in others if not (is_carried and finding.relation == "import")]
    asked += [] if is_carried else [problem.title for problem in patch.problems]
    how = "conflict" if reasons else _how(rebase, patch)
    return PatchRecord(
        config.config, patch.target, patch.kind, change, patch.verdict, how, tuple(reasons), tuple(asked)
    )


def _how(rebase: Rebase | None, patch: PatchVerdict) -> str:
    if rebase is None:
        return "nothing"
    if not rebase.diff:
        if rebase.merged.how == "kept":
            return "kept"
        return "nothing" if patch.verdict in ("unchanged", "cosmetic", "added") else "has it"
    is_code = any(change.name == "new" for change in rebase.arguments) or bool(rebase.statements)
    try:
        is_merge = is_code or not has_only_other_names(rebase.ours, rebase.merged.text)
    except (SyntaxError, ValueError):
        is_merge = True
    return rebase.merged.how if is_merge else "rewritten"


# --- what upstream did -----------------------------------------------------------------------------


class _Changes:
    """What upstream did to targets between two releases; each module is read once."""

    def __init__(self, old: Release, new: Release) -> None:
        self.folders = (old.folder, new.folder)
        self.modules: dict[str, list[dict[str, ast.AST]]] = {}

    def of(self, module: str, target: str) -> str:
        if module not in self.modules:
            self.modules[module] = [_definitions(folder, module) for folder in self.folders]
        return upstream_change(*(definitions.get(target) for definitions in self.modules[module]))


def _definitions(folder: Path, module: str) -> dict[str, ast.AST]:
    try:
        tree = ast.parse(find_upstream(module, (folder,)).path.read_text(encoding="utf-8"))
    except PatchgenError:
        return {}
    return definitions_of(tree)


def definitions_of(tree: ast.Module) -> dict[str, ast.AST]:
    """The classes, functions and methods of a module by name."""
    found: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found[node.name] = node
            members = node.body if isinstance(node, ast.ClassDef) else []
            found |= {f"{node.name}.{m.name}": m for m in members if isinstance(m, ast.FunctionDef)}
    return found


def upstream_change(old: ast.AST | None, new: ast.AST | None) -> str:
    """What changed of a definition: ``none``, ``layout`` or docstring, ``annotations`` of parameters and results,
    ``body``, ``decorators``, ``signature``, ``gone`` under its name, or ``not there`` before."""
    if old is None:
        return "not there"
    if new is None:
        return "gone"
    if ast.dump(old) == ast.dump(new):
        return "none"
    if _without_docstrings(old) == _without_docstrings(new):
        return "layout"
    old, new = (ast.parse(_without_annotations(node)) for node in (old, new))
    if ast.dump(old) == ast.dump(new):
        return "annotations"
    if _signatures(old) != _signatures(new):
        return "signature"
    return "body" if _decorators(old) == _decorators(new) else "decorators"


def _without_docstrings(node: ast.AST) -> str:
    copy = ast.parse(ast.unparse(node))
    for inner in ast.walk(copy):
        if isinstance(inner, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(inner) is not None:
            inner.body = inner.body[1:] or [ast.Pass()]
    return ast.dump(copy)


def _without_annotations(node: ast.AST) -> str:
    copy = ast.parse(ast.unparse(node))
    for inner in ast.walk(copy):
        if isinstance(inner, ast.arg):
            inner.annotation = None
        elif isinstance(inner, (ast.ClassDef, ast.FunctionDef)):
            if isinstance(inner, ast.FunctionDef):
                inner.returns = None
            if ast.get_docstring(inner) is not None:
                inner.body = inner.body[1:] or [ast.Pass()]
    return ast.unparse(copy)


def _signatures(node: ast.AST) -> list[str]:
    return [f"{f.name} {ast.dump(f.args)}" for f in ast.walk(node) if isinstance(f, ast.FunctionDef)]


def _decorators(node: ast.AST) -> list[str]:
    owners = (inner for inner in ast.walk(node) if isinstance(inner, (ast.ClassDef, ast.FunctionDef)))
    return [ast.dump(decorator) for owner in owners for decorator in owner.decorator_list]


# --- what is left out ------------------------------------------------------------------------------


def make_all(project: Project, configs: Sequence[LoadedConfig], release: Release) -> dict[str, tuple[str, ...]]:
    """Write the generated files of configs against a release; returns what is wrong with them, without lines."""
    there = replace(project, upstream=(release.folder,))
    return {label: tuple(_describe(p) for p in problems) for label, problems in _make(there, configs).items()}


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


def _describe(problem: Problem) -> str:
    words = problem.title.split()
    return " ".join(word for before, word in zip(["", *words], words) if before != "line")


@dataclass(frozen=True)
class _Leaving:
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
        for _ in range(ROUNDS):
            for loaded in self._configs(affected):
                drop(loaded, [target for config, target in targets if config == loaded.label])
            configs = self._configs(affected)
            problems |= _make(there, configs)
            blamed = [found for c in configs for found in self._blamed(c, problems[c.label], c.label in hit)]
            reasons |= {key: text for key, text in blamed if text in self.told[key[0]]}
            hit |= {config for config, _ in reasons}
            targets = {key for key, _ in blamed}
            affected = {config for config, _ in targets}
            if not affected:
                break
        present = {(c.label, patch.target) for c in self._configs(wanted) for patch in c.config.patches}
        results = []
        for record in records:
            key = record.config, record.target
            if key in reasons and record.how != "conflict":
                record = replace(record, how="conflict", reasons=(reasons[key],))
            elif record.how != "conflict" and key not in present and record.config in hit:
                record = replace(record, how="fell")
            results.append(record)
        unloaded = "; ".join(problem.title for problem in select_configs(self.project).failed)
        texts = {label: (f"does not load: {unloaded}",) for label in wanted if label not in problems}
        return results, {**texts, **{label: tuple(map(_describe, each)) for label, each in problems.items()}}

    def _configs(self, wanted: Collection[str]) -> list[LoadedConfig]:
        return [loaded for loaded in select_configs(self.project).configs if loaded.label in wanted]

    def _blamed(
        self, loaded: LoadedConfig, problems: Iterable[Problem], is_hit: bool
    ) -> Iterator[tuple[tuple[str, str], str]]:
        """The patches of a config that new problems are about: those that were told, and, where something was left
        out already, all others as well."""
        for problem in problems:
            text = _describe(problem)
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


def drop(loaded: LoadedConfig, targets: Sequence[str]) -> None:
    """Have a config take back its patches on some targets."""
    if targets:
        names = ", ".join(map(repr, sorted(targets)))
        line = f"{loaded.name}.patches[:] = [p for p in {loaded.name}.patches if p.target not in ({names},)]\n"
        with loaded.path.open("a", encoding="utf-8") as file:
            file.write(f"\n# What a person would have to carry over\n{line}")


def _compare(records: Iterable[PatchRecord], project: Project, people: Path | None) -> list[PatchRecord]:
    """The records, with whether each patch has the code that people wrote."""
    if people is None:
        return list(records)
    selection = select_configs(project)
    codes: dict[str, list[dict[str, str]]] = {}
    for loaded in selection.configs:
        name = f"{loaded.path.parent.name}/generated/{loaded.config.target_file}"
        files = [loaded.path.parent / "generated" / loaded.config.target_file, people / name]
        if all(file.is_file() for file in files):
            codes[loaded.label] = [code(file) for file in files]
    results = []
    for record in records:
        ours, theirs = codes.get(record.config, ({}, {}))
        is_known = record.target in ours and record.target in theirs and record.how not in ("conflict", "fell")
        same = ours.get(record.target) == theirs.get(record.target)
        results.append(replace(record, is_as_people_wrote=same if is_known else None))
    return results
