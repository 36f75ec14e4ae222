"""The older zoo, upgraded version by version: what each step says, what merges, what is left. `make walk` runs it."""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
import time
import tokenize
from collections import Counter
from pathlib import Path

from patchgen_core.authoring.slim.slim import Slimmed
from patchgen_core.upgrade.package_configs import select_configs
from patchgen_core.upgrade.results import UpgradeReport
from tests.upgrade import older
from tests.upgrade.upgrade_history import RELEASES, verdict_of
from tools.releases import find_releases


def main(arguments: list[str] | None = None) -> int:
    """Walk; returns 1 when something is wrong on the way or at its end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="an empty folder for the project, which stays")
    parser.add_argument("--at-once", action="store_true", help="take the first release to the last in one step")
    parser.add_argument("--slim", action="store_true", help="with what `patchgen slim` makes edits of")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        return walk(options.folder or Path(temporary), options.at_once, options.slim)


def walk(folder: Path, at_once: bool, is_slim: bool = False) -> int:
    """Walk in a folder."""
    releases = find_releases()
    project = older.make_project(folder, older.JOINING[RELEASES[0]], RELEASES[0])
    first = releases.find(RELEASES[0])
    problems = older.generate(project, first)
    if is_slim:
        tell(describe_slimmed(older.slim_configs(project, first)), ())
    tell(f"{RELEASES[0]}: {len(select_configs(project).configs)} configs", problems)
    merged: Counter[str] = Counter()
    wrong: list[str] = []
    for version in RELEASES[-1:] if at_once else RELEASES[1:]:
        start = time.perf_counter()
        step = older.take_step(project, releases, version, passing=RELEASES[1:-1] if at_once else ())
        problems += step.problems
        wrong += [] if at_once else wrong_verdicts(step)
        merged += count_merges(step.report)
        tell(f"{version}: {describe(step)} ({time.perf_counter() - start:.1f} s)", step.problems)
        if version in older.JOINING and not at_once:
            older.join(folder, version, older.JOINING[version])
            if is_slim:
                older.take_edits(folder)
            problems += older.generate(project, releases.find(version))
            if is_slim:
                tell(describe_slimmed(older.slim_configs(project, releases.find(version))), ())
    print(f"in all: {', '.join(f'{number} {how}' for how, number in merged.items())}")
    different = older.differences(project, select_configs(project))
    for (file, target), diff in different.items():
        print(f"\n{file} {target}: other code than the zoo's\n{diff}")
    print(f"{len(different)} patches have other code than the zoo's")
    print("wrong verdicts:", *wrong or ["none"], sep="\n  ")
    return gate(folder) or int(bool(step.problems or wrong))


def wrong_verdicts(step: older.Step) -> list[str]:
    """What a step's report says other than the table of upstream's history."""
    wrong = []
    for config, patch in older.verdicts(step.report):
        right = verdict_of(older.model_of(config), patch.target, step.release.version)
        of_edit = older.OF_EDITS.get(patch.verdict, ())
        if patch.verdict != right and right not in of_edit:
            wrong.append(f"{step.release.version} {config.config} {patch.findings[0]}, which is {right}")
    return wrong


def tell(line: str, problems: tuple[object, ...]) -> None:
    """Print a step and what is wrong after it."""
    print(line, *(f"  {problem}" for problem in problems), sep="\n", flush=True)


def count_merges(report: UpgradeReport) -> Counter[str]:
    """How replacements and edits are carried over, each once; a name or a place that is only rewritten is one of
    `rewritten`."""
    merges = {}
    for rebase in (rebase for config in report.configs for rebase in config.rebases):
        if rebase.diff or not rebase.merged.is_clean:
            is_code = any(change.name == "new" for change in rebase.arguments)
            is_merge = is_code or bool(rebase.statements) or not has_only_other_names(rebase.ours, rebase.merged.text)
            how = "conflicts" if not rebase.merged.is_clean else rebase.merged.how if is_merge else "rewritten"
            merges[rebase.location] = how
    return Counter(merges.values())


def has_only_other_names(old: str, new: str) -> bool:
    """Whether two texts are the same but for names, each of which stands for one and the same other name."""
    before, after = (
        [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.string.strip()]
        for text in (old, new)
    )
    pairs = [(one.string, other.string) for one, other in zip(before, after) if one.string != other.string]
    are_names = all(one.isidentifier() and other.isidentifier() for one, other in pairs)
    return len(before) == len(after) and are_names and len(dict(pairs)) == len(set(pairs))


def describe_slimmed(results: list[Slimmed]) -> str:
    """What was slimmed, in one line."""
    patches = [patch for result in results for patch in result.patches]
    before, after = sum(patch.before for patch in patches), sum(patch.after for patch in patches)
    return f"slimmed: {len(patches)} replacements of {before} lines become edits of {after}"


def describe(step: older.Step) -> str:
    """A step in one line."""
    kinds = Counter(patch.verdict for _, patch in older.verdicts(step.report))
    merges = ", ".join(f"{number} {how}" for how, number in count_merges(step.report).items()) or "none"
    verdicts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    return f"{verdicts}; merges: {merges}; written: {len(step.applied.merged)}; by hand: {len(step.edits)}"


def gate(folder: Path) -> int:
    """Run the gate over the project with the installed release."""
    command = [sys.executable, "-m", "pytest", "-p", "pytest_patchgen", "-q", "-n", "auto", "zoo"]
    return subprocess.run(command, cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main())
