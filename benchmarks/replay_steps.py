"""One step of the replay: a project is carried over to a release by machine, and what was said of each patch is kept.

A patch that needs a person is left out from then on, so that what comes after is about the others.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.replay_leaving import Leaving, describe_problem, make_all
from benchmarks.replay_records import PatchRecord, StepRecord
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.upgrade.package_configs import PackageConfigs, select_configs
from patchgen_core.upgrade.results import ConfigVerdict, PatchVerdict, Rebase
from patchgen_core.upgrade.upgrading import upgrade
from patchgen_core.upgrade.writing.applying import Applied, apply
from patchgen_core.upgrade.writing.rehearsing import files_of
from patchgen_core.upstream.module import find_upstream
from patchgen_core.upstream.releases import Release, Releases
from patchgen_core.workers.collector import without_collector
from tests.upgrade.older import code
from tools.upgrade_walk import has_only_other_names


@without_collector()
def take_step(
    folder: Path,
    releases: Releases,
    old: str,
    new: str,
    ended: Iterable[str] = (),
    wrong: Mapping[str, Sequence[str]] | None = None,
    people: Path | None = None,
) -> StepRecord:
    """Carry over the project in a folder, in place.

    Args:
        ended: the configs that went no further before.
        wrong: by config, what is wrong with it at the old release, as far as that is known; the others are made anew.
        people: the folder of configs' folders with what people made for the new release.

    Raises:
        PatchgenError: a release cannot be had, or a file cannot be written.
    """
    project, release = load_project(folder), releases.find(new)
    selection = select_configs(project)
    selection = replace(selection, configs=tuple(c for c in selection.configs if c.label not in {*ended}))
    before = {label: tuple(texts) for label, texts in (wrong or {}).items()}
    before |= make_all(project, [c for c in selection.configs if c.label not in before], releases.find(old))
    report = upgrade(selection, release, releases, since=old)
    texts = _read_texts(selection)
    applied = apply(project, report, release, allow_dirty=True)
    left = {rebase.location: reason for rebase, reason in applied.left}
    changes = _Changes(releases.find(old), release)
    records = [
        record_patch(config, patch, left, changes.of(config.module, patch.target))
        for config in report.configs
        for patch in config.patches
    ]
    told = {config.config: {*map(describe_problem, config.problems)} for config in report.configs}
    step = Leaving(project, release, before, told)
    concerned = {record.config for record in records if record.how == "conflict"}
    concerned |= {c.label for c in selection.configs if before[c.label] or told[c.label]}
    same = _find_same(selection, texts, applied) - concerned
    records, now = step.run(records, {c.label for c in selection.configs} - same)
    now |= dict.fromkeys(same, ())
    if stopped := {label for label in now if step.new_texts(label, now)}:
        _carry_on(project, releases, release, old, stopped)
        records, later = step.run(records, stopped)
        now = {**now, **later}
    broken = {label: step.new_texts(label, now) for label in now}
    stops = {label: texts[0] for label, texts in broken.items() if texts}
    unsaid = {label: tuple(text for text in broken[label] if text not in told[label]) for label in stops}
    unsaid = {label: texts for label, texts in unsaid.items() if texts}
    return StepRecord(old, new, tuple(_compare(records, project, people)), unsaid, stops, now)


def _find_same(selection: PackageConfigs, texts: Mapping[str, list[bytes]], applied: Applied) -> set[str]:
    """The configs that are generated for the new release with the texts that they had."""
    generated = {loaded.label for loaded in selection.configs if loaded.path not in applied.unfinished}
    now = _read_texts(selection)
    return {label for label in generated if now[label] == texts[label]}


def _read_texts(selection: PackageConfigs) -> dict[str, list[bytes]]:
    """The files that each config is made of."""
    return {c.label: [path.read_bytes() for path in sorted(files_of(c))] for c in selection.configs}


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
            old, new = (_read_module(folder, module) for folder in self.folders)
            before = definitions_of(ast.parse(old))
            self.modules[module] = [before, before if old == new else definitions_of(ast.parse(new))]
        return upstream_change(*(definitions.get(target) for definitions in self.modules[module]))


def _read_module(folder: Path, module: str) -> str:
    try:
        return find_upstream(module, (folder,)).path.read_text(encoding="utf-8")
    except PatchgenError:
        return ""


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
    if old is new or ast.dump(old) == ast.dump(new):
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
