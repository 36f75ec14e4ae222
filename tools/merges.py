"""How many replacements of a real project can be carried over to a later release of transformers.

The project is VeOmni 0.1.11, whose configs are made for transformers 5.2.0, and the later release is 5.9.0. Every
patch that replaces something is looked at whose target upstream changed. The merged texts are written into a copy of
the project, which is then generated against the later release and checked for contracts that it did not break before.

    python -m tools.merges [--show]
    python -m tools.merges --edits

The latter says what `patchgen upgrade --apply` does with the project as it is, and once `patchgen slim` made edits of
what it can.
"""

from __future__ import annotations

import argparse
import ast
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.authoring.slim.slim import slim
from patchgen_core.build.artifacts import make_outcomes
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.contract.library import Library
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.merging.lines import merge_lines
from patchgen_core.upgrade.package_configs import select_configs
from patchgen_core.upgrade.rebasing import Rebaser
from patchgen_core.upgrade.release_module import ReleaseModule
from patchgen_core.upgrade.results import Merged
from patchgen_core.upgrade.upgrading import upgrade
from patchgen_core.upgrade.writing.applying import apply
from patchgen_core.upstream.module import find_upstream
from tools.real_project import find_upstream_release, make_real_project
from tools.releases import REAL, find_releases
from tools.upgrade_walk import count_merges

OLD, NEW = "0.1.11", "0.1.12"
"""Releases of the project; the later one is made for the later release of transformers."""
KINDS = ("method_override", "class_replacement", "function_replacement")


@dataclass(frozen=True)
class Case:
    """A patch whose target upstream changed: the three texts, and what becomes of ours."""

    config: str
    target: str
    kind: str
    base: str
    ours: str
    theirs: str
    merged: Merged

    @property
    def change(self) -> str:
        """What upstream changed."""
        old, new = (ast.parse(text).body[0] for text in (self.base, self.theirs))
        if ast.dump(getattr(old, "args", old)) != ast.dump(getattr(new, "args", new)):
            return "signature"
        same = [*map(ast.dump, old.decorator_list)] == [*map(ast.dump, new.decorator_list)]  # type: ignore[attr-defined]
        return "body" if same else "decorators"


def read_cases(project: Project, old: Path, new: Path) -> tuple[list[Case], int]:
    """Every replacement whose target upstream changed, and how many patches there are."""
    sources, upstream = SourceCache(), SourceCache()
    libraries = {folder: Library(replace(project, upstream=(folder,)), upstream) for folder in (old, new)}
    loader = Loader(project, sources)
    cases: list[Case] = []
    count = 0
    for path in project.find_configs():
        for loaded in loader.load(path):
            sides = []
            for folder in (old, new):
                module = find_upstream(loaded.config.source_module, (folder,))
                sides.append(ReleaseModule(module, upstream.get(module.path), libraries[folder], "folder"))
            count += sum(patch.kind in KINDS for patch in loaded.config.patches)
            cases += _cases(loaded, sides, sources)
    return cases, count


def _cases(loaded: LoadedConfig, sides: list[ReleaseModule], sources: SourceCache) -> Iterator[Case]:
    rebaser = Rebaser(loaded, *sides, sources)
    for patch in loaded.config.patches:
        texts = rebaser.texts(patch)
        if texts is not None and not texts.is_unchanged:
            merged = rebaser.merge(patch, texts)
            yield Case(loaded.label, patch.target, patch.kind, texts.base, texts.ours, texts.theirs, merged)


def is_clean_by_lines(case: Case) -> bool:
    """Whether merging by lines alone would do."""
    text, conflicts = merge_lines(case.base, case.ours, case.theirs)
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return not conflicts


def new_problems(project: Project, new: Path, cases: list[Case]) -> tuple[list[str], int]:
    """What is wrong with the generated modules once the clean merges are in the configs, and was not before."""
    before = problems(project, new)
    replaced = set()
    for path in project.find_configs():
        text = path.read_text(encoding="utf-8")
        for case in cases:
            if case.merged.is_clean and case.ours in text and case.ours != case.merged.text:
                text = text.replace(case.ours, case.merged.text)
                replaced.add(case.ours)
        path.write_text(text, encoding="utf-8")
    return sorted(problems(project, new) - before), len(replaced)


def problems(project: Project, new: Path) -> set[str]:
    """Why configs do not generate against a release, and the contracts that break there."""
    project = replace(project, upstream=(new,))
    sources = SourceCache()
    loader = Loader(project, sources)
    configs = [loaded for path in project.find_configs() for loaded in loader.load(path)]
    contracts = Contracts(project, sources)
    messages = set()
    for outcome in make_outcomes(project, configs, sources):
        broken = outcome.problems
        if outcome.artifact is not None:
            broken = contracts.examine(outcome.artifact, outcome.path).errors
        for problem in broken:
            messages.add(f"{outcome.label}: {re.sub(r'line [0-9]+', 'line', problem.message)}")
    return messages


def print_table(cases: list[Case], count: int, show: bool) -> None:
    """Say what became of the cases."""
    releases = f"VeOmni {OLD}, transformers {REAL[OLD]} to {REAL[NEW]}"
    print(f"{releases}: {count} replacements, {len(cases)} of whose targets upstream changed")
    print(f"{'what upstream changed':<40}{'targets':>9}{'by lines':>10}{'by syntax':>11}{'conflicts':>11}")
    for change in ("signature", "decorators", "body", ""):
        chosen = [case for case in cases if change in ("", case.change)]
        lines = sum(map(is_clean_by_lines, chosen))
        clean = sum(case.merged.is_clean for case in chosen)
        name = change or "all"
        print(f"{name:<40}{len(chosen):>9}{lines:>10}{clean:>11}{len(chosen) - clean:>11}")
    reasons = Counter(_kind(conflict.reason) for case in cases for conflict in case.merged.conflicts)
    print("\nwhy there are conflicts")
    for reason, number in reasons.most_common():
        print(f"{number:>5}  {reason}")
    for case in cases if show else ():
        print(f"\n{case.config} {case.target}: {'clean' if case.merged.is_clean else 'conflict'} ({case.merged.how})")
        for text in (*(conflict.reason for conflict in case.merged.conflicts), *case.merged.notes):
            print(f"    {text}")


def _kind(reason: str) -> str:
    """A reason without the code and the name that it is about."""
    return re.sub(r"^'\w[\w.]*'", "a name", reason.split(": `")[0])


def measure(folder: Path, show: bool) -> None:
    """Make the project in a folder, merge, and print."""
    project = make_real_project(OLD, folder)
    old, new = (find_upstream_release(version).folder for version in (OLD, NEW))
    cases, count = read_cases(project, old, new)
    print_table(cases, count, show)
    messages, count = new_problems(project, new, cases)
    print(f"\nwritten into the configs: {count} different texts; problems of what they make then, and not before:")
    print("\n".join(messages) or "none")


def compare_forms(folder: Path) -> None:
    """Upgrade the project in replacements and in edits, and print what becomes of both."""
    releases, release = find_releases(), find_upstream_release(NEW)
    for is_slim in (False, True):
        own = folder / ("edits" if is_slim else "replacements")
        own.mkdir()
        project = make_real_project(OLD, own)
        print(describe_slimming(project) if is_slim else "in replacements", flush=True)
        before = problems(project, release.folder)
        report = upgrade(select_configs(project), release, releases, since=REAL[OLD])
        verdicts = Counter(patch.verdict for config in report.configs for patch in config.patches)
        risks = Counter(patch.risk for config in report.configs for patch in config.patches)
        for counts in (verdicts, risks, count_merges(report)):
            print(f"    {', '.join(f'{number} {kind}' for kind, number in counts.most_common())}", flush=True)
        apply(project, report, release, allow_dirty=True)
        new = sorted(problems(project, release.folder) - before)
        print("    written; problems that were not there before:", *(new or ["none"]), sep="\n      ", flush=True)


def describe_slimming(project: Project) -> str:
    """Slim the configs of a project, each by itself, and say how many lines that saves."""
    fix(check(Selection(project)))
    patches, refused = [], 0
    for path in project.find_configs():
        try:
            patches += [patch for result in slim(Selection(project, (path,))) for patch in result.patches]
        except PatchgenError:  # it does not generate
            refused += 1
    before, after = sum(patch.before for patch in patches), sum(patch.after for patch in patches)
    more = f"; {refused} configs do not generate" if refused else ""
    return f"\nin edits: {len(patches)} replacements of {before} lines became edits of {after}{more}"


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--show", action="store_true", help="say what became of each")
    parser.add_argument("--edits", action="store_true", help="upgrade it in replacements and in edits")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patchgen-merges-") as folder:
        if options.edits:
            compare_forms(Path(folder).resolve())
        else:
            measure(Path(folder).resolve(), options.show)


if __name__ == "__main__":
    main()
