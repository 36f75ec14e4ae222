"""How many replacements of a real project can be carried over to a later release of transformers.

The project is VeOmni 0.1.11, whose configs are made for transformers 5.2.0, and the later release is 5.9.0. Every
patch that replaces something is looked at whose target upstream changed. The merged texts are written into a copy of
the project, which is then generated against the later release and checked for contracts that it did not break before.

    python -m tools.merges [--folder FOLDER] [--show]

The wheels are downloaded with pip into a temporary folder, or into ``--folder`` where they are not there yet.
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

PROJECT, OLD, NEW = "veomni==0.1.11", "transformers==5.2.0", "transformers==5.9.0"
MODELS = "veomni/models/transformers"
FORWARD = "from patchgen.patch_spec import *\n"
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
    merged: Any

    @property
    def change(self) -> str:
        """What upstream changed."""
        old, new = (ast.parse(text).body[0] for text in (self.base, self.theirs))
        if ast.dump(getattr(old, "args", old)) != ast.dump(getattr(new, "args", new)):
            return "signature"
        same = [*map(ast.dump, old.decorator_list)] == [*map(ast.dump, new.decorator_list)]  # type: ignore[attr-defined]
        return "body" if same else "decorators"


def fetch(requirement: str, folder: Path) -> Path:
    """The unpacked wheel of a package."""
    target = folder / requirement.replace("==", "-")
    if not target.is_dir():
        wheels = folder / "wheels"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels)]
        subprocess.run([*command, "--only-binary=:all:", requirement], check=True)
        name, _, version = requirement.partition("==")
        (wheel,) = wheels.glob(f"{name}-{version}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    return target


def make_copy(project: Path, folder: Path) -> Path:
    """The project's configs, declared with this package instead of the copy of the DSL that it ships."""
    copy = folder / "project"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(project / "veomni", copy / "veomni", ignore=shutil.ignore_patterns("generated", "__pycache__"))
    for name in ("__init__.py", "patch_spec.py"):
        (copy / "veomni" / "patchgen" / name).write_text(FORWARD)
    for path in (copy / MODELS).rglob("*_patch_gen_config.py"):  # a set there, a list here
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("drop_imported_names.update(", "drop_imported_names.extend("), encoding="utf-8")
    return copy


def read_cases(project: Any, old: Path, new: Path) -> tuple[list[Case], int]:
    """Every replacement whose target upstream changed, and how many patches there are."""
    from patchgen_core.config.loading import Loader
    from patchgen_core.syntax.source import SourceCache
    from patchgen_core.upgrade.release_module import ReleaseModule
    from patchgen_core.upstream.module import find_upstream

    sources, upstream = SourceCache(), SourceCache()
    loader = Loader(project, sources)
    cases: list[Case] = []
    count = 0
    for path in project.find_configs():
        for loaded in loader.load(path):
            sides = []
            for folder in (old, new):
                module = find_upstream(loaded.config.source_module, (folder,))
                sides.append(ReleaseModule(module, upstream.get(module.path), None, "folder"))
            count += sum(patch.kind in KINDS for patch in loaded.config.patches)
            cases += _cases(loaded, sides, sources)
    return cases, count


def _cases(loaded: Any, sides: list[Any], sources: Any) -> Iterator[Case]:
    from patchgen_core.upgrade.merging.merge import merge_definition
    from patchgen_core.upgrade.rebasing import Rebaser

    rebaser = Rebaser(loaded, *sides, sources)
    for patch in loaded.config.patches:
        texts = rebaser.texts(patch)
        if texts is not None and not texts.is_unchanged:
            merged = merge_definition(texts.base, texts.ours, texts.theirs)
            yield Case(loaded.label, patch.target, patch.kind, texts.base, texts.ours, texts.theirs, merged)


def is_clean_by_lines(case: Case) -> bool:
    """Whether merging by lines alone would do."""
    from patchgen_core.upgrade.merging.lines import merge_lines

    text, conflicts = merge_lines(case.base, case.ours, case.theirs)
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return not conflicts


def new_problems(project: Any, new: Path, cases: list[Case]) -> tuple[list[str], int]:
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


def problems(project: Any, new: Path) -> set[str]:
    """Why configs do not generate against a release, and the contracts that break there."""
    from patchgen_core.build.artifacts import make_outcomes
    from patchgen_core.checks.contract.run import Contracts
    from patchgen_core.config.loading import Loader
    from patchgen_core.syntax.source import SourceCache

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
    print(f"{PROJECT}, {OLD} to {NEW}: {count} replacements, {len(cases)} of whose targets upstream changed")
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
    """Fetch what is needed, merge, and print."""
    from patchgen_core.project.project import Project

    project, old, new = (fetch(requirement, folder) for requirement in (PROJECT, OLD, NEW))
    root = make_copy(project, folder)
    settings = Project(root / MODELS, MODELS.replace("/", "."), root=root)
    cases, count = read_cases(settings, old, new)
    print_table(cases, count, show)
    messages, count = new_problems(settings, new, cases)
    print(f"\nwritten into the configs: {count} different texts; problems of what they make then, and not before:")
    print("\n".join(messages) or "none")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--folder", type=Path, help="folder of the wheels; those that lie there are not downloaded")
    parser.add_argument("--show", action="store_true", help="say what became of each")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patchgen-merges-") as folder:
        where = (options.folder or Path(folder)).resolve()
        where.mkdir(parents=True, exist_ok=True)
        measure(where, options.show)


if __name__ == "__main__":
    main()
