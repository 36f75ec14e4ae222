"""The replay: projects are carried over release by release, fully by machine, and the gate judges each patch.

    python -m benchmarks.replay [--walks NAME ...] [--releases VERSION ...] [--steps 5.9.0..5.24.0]
                                [--configs PATTERN ...] [--no-parity] [--jobs N] [--folder DIR] [--tables]
                                [--figures FILE]

Each step's results and project stay in the folder, and a step that is there is not taken again: stop it, and start it
again, at any time. After the steps, parity judges each release that a walk came to, one process a release. With all
releases that takes many hours; `--tables` only prints what is there. `--figures` writes how many patches came to what
into `benchmarks/replay_figures.txt`, beside those of walks that were not chosen; docs/upgrading.md has its tables.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.replay_figures import write_figures
from benchmarks.replay_gate import judge_release
from benchmarks.replay_judge import Judged, judge, table
from benchmarks.replay_records import PatchRecord, StepRecord
from benchmarks.replay_steps import take_step
from benchmarks.replay_walks import RELEASES, Walk, choose_walks, join_models, make_start, people_wrote
from patchgen_core.errors import PatchgenError
from patchgen_core.files import write_files
from tools.releases import FOLDER, find_releases

IGNORED = shutil.ignore_patterns("__pycache__", ".patchgen_cache", ".pytest_cache")


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, and print the tables; returns 1 when something is wrong."""
    options = _parse(arguments)
    os.nice(15)
    try:
        walks = choose_walks(options.walks, options.releases)
    except PatchgenError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not options.tables:
        with ProcessPoolExecutor(options.jobs) as pool:
            list(pool.map(run_walk, walks, [options] * len(walks)))
    judged = [entry for walk in walks for entry in read_judged(walk, options.folder, options.chosen)]
    print_tables(walks, judged)
    if options.figures is not None:
        write_figures(options.figures, [(walk.name, version, entry) for walk, version, entry in judged])
    return int(any(entry.outcome == "wrong" for _, _, entry in judged))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--walks", nargs="+", default=[], metavar="NAME", help="such as veomni-0.1.12-edits")
    parser.add_argument(
        "--releases", nargs="+", default=RELEASES, choices=RELEASES, metavar="VERSION", help="go through these alone"
    )
    parser.add_argument("--steps", default="..", help="releases to come to, such as 5.9.0..5.12.1")
    parser.add_argument("--configs", nargs="+", default=[], metavar="PATTERN", help="configs that parity runs for")
    parser.add_argument("--no-parity", action="store_true", help="judge by generating and the contract rules alone")
    parser.add_argument("--jobs", type=int, default=1, help="walks at a time")
    parser.add_argument("--folder", type=Path, default=FOLDER.parent / "replay", help="where results are kept")
    parser.add_argument("--tables", action="store_true", help="only print the tables of what is there")
    parser.add_argument("--figures", type=Path, help="write the counts of the chosen walks into a file of such")
    options = parser.parse_args(arguments)
    first, _, last = options.steps.partition("..")
    unknown = [version for version in (first, last) if version and version not in RELEASES]
    if unknown:
        parser.error(f"--steps: {unknown[0]} is not one of {', '.join(RELEASES)}")
    start = RELEASES.index(first) if first else 0
    end = RELEASES.index(last or (first if ".." not in options.steps else RELEASES[-1]))
    options.chosen = RELEASES[start : end + 1]
    return options


def run_walk(walk: Walk, options: argparse.Namespace) -> None:
    """Take the steps of a walk that are missing, and have parity judge those that are chosen."""
    home = options.folder / walk.name
    current = home / walk.start
    if not (home / f"{walk.start}.json").is_file():
        shutil.rmtree(current, ignore_errors=True)
        current.mkdir(parents=True)
        problems = make_start(walk, current)
        print(f"{walk.name} {walk.start}:", *problems or ["nothing is wrong"], sep="\n  ", flush=True)
        _save(home / f"{walk.start}.json", {"problems": problems})
    ended: set[str] = set()
    for old, version in zip((walk.start, *walk.steps), walk.steps):
        if RELEASES.index(version) > RELEASES.index(options.chosen[-1]):
            break
        if not (home / f"{version}.json").is_file():
            _take(walk, home, old, version, ended)
        ended |= {*_load_step(home / f"{version}.json").ended}
    if not options.no_parity:
        for version in (walk.start, *walk.steps):
            if version in options.chosen and (home / f"{version}.json").is_file():
                judge_release(home / version, version, options.configs)


def _take(walk: Walk, home: Path, old: str, version: str, ended: set[str]) -> None:
    folder, start = home / version, time.perf_counter()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(home / old, folder, ignore=IGNORED)
    step = take_step(folder, find_releases(), old, version, ended, people_wrote(walk, version))
    joining = join_models(walk, folder, version)
    run = {"joining": joining, "seconds": round(time.perf_counter() - start, 1), "revision": _revision()}
    values = {**dataclasses.asdict(step), **run}
    _save(home / f"{version}.json", values)
    conflicts = sum(record.how == "conflict" for record in step.patches)
    print(f"{walk.name} {version}: {len(step.patches)} patches, {conflicts} conflicts, {len(step.broken)} broken")
    sys.stdout.flush()


def _revision() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _save(path: Path, value: Any) -> None:
    write_files([(path, json.dumps(value, indent=1) + "\n")])


def _load_step(path: Path) -> StepRecord:
    values = json.loads(path.read_text(encoding="utf-8"))
    patches = tuple(
        PatchRecord(**{**entry, "reasons": tuple(entry["reasons"]), "asked": tuple(entry["asked"])})
        for entry in values["patches"]
    )
    broken = {config: tuple(texts) for config, texts in values["broken"].items()}
    return StepRecord(values["old"], values["new"], patches, broken, values["ended"])


def read_judged(walk: Walk, folder: Path, chosen: Sequence[str]) -> Iterator[tuple[Walk, str, Judged]]:
    """What each patch came to at each step that was taken."""
    home = folder / walk.name
    for old, version in zip((walk.start, *walk.steps), walk.steps):
        path = home / f"{version}.json"
        if not path.is_file():
            return
        if version in chosen:
            before, now = (_gate(home / release) for release in (old, version))
            red = {config: texts for config, texts in now.items() if texts and not before.get(config)}
            for entry in judge(_load_step(path), red, now):
                yield walk, version, entry


def _gate(folder: Path) -> dict[str, list[str]]:
    path = folder.with_name(f"{folder.name}.gate.json")
    configs: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return configs


def print_tables(walks: Sequence[Walk], judged: Sequence[tuple[Walk, str, Judged]]) -> None:
    """Print the tables of all walks and of each form, and what is wrong."""
    for form in dict.fromkeys(walk.form for walk in walks):
        entries = [entry for walk, _, entry in judged if walk.form == form]
        steps = {(walk.name, version) for walk, version, _ in judged if walk.form == form}
        proved = sum(entry.by == "parity" for entry in entries)
        print(f"\n{form}: {len(entries)} patches in {len(steps)} steps; parity ran for {proved} of them")
        for group in ("kind", "change"):
            print("", *table(entries, group), sep="\n")
        carried = [
            e
            for e in entries
            if e.record.is_as_people_wrote is not None and e.record.change not in ("none", "not there")
        ]
        same = sum(bool(e.record.is_as_people_wrote) for e in carried)
        print(
            f"\nof {len(carried)} that people wrote too, and upstream changed in that step, {same} are the same code"
        )
    wrong = [(walk, version, entry) for walk, version, entry in judged if entry.outcome == "wrong"]
    print(f"\n{len(wrong)} wrong")
    for walk, version, entry in wrong:
        print(f"{walk.name} {version} {entry.record.config} {entry.record.target} ({entry.record.how}): {entry.why}")


if __name__ == "__main__":
    sys.exit(main())
