"""The replay: projects are carried over release by release, fully by machine, and the gate judges each patch.

    python -m benchmarks.replay [--walks NAME ...] [--releases VERSION ...] [--steps 5.9.0..5.24.0]
                                [--configs PATTERN ...] [--no-parity] [--jobs N | --on CLUSTER] [--folder DIR]
                                [--tables] [--figures FILE]

Each step's results and project stay in the folder, and a step that is there is not taken again: stop it, and start it
again, at any time. After the steps, parity judges each release that a walk came to, one process a release. With all
releases that takes many hours, less with `--on`, where several walks go on at a time at a cluster's nodes. `--tables`
only prints what is there. `--figures` writes how many patches came to what into a file such as
`benchmarks/replay_minor_figures.txt`, beside those of steps that were not chosen; docs/upgrading.md has its tables.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.replay_figures import write_figures
from benchmarks.replay_gate import find_new, find_unjudged, find_witnessed, gate_file, read_red
from benchmarks.replay_judge import Judged, judge, table
from benchmarks.replay_processes import Processes, start_processes
from benchmarks.replay_records import PatchRecord, StepRecord
from benchmarks.replay_requests import Request, find_wheels, pack_project, unpack_project
from benchmarks.replay_walks import RELEASES, Walk, choose_walks
from patchgen_core.errors import PatchgenError
from patchgen_core.files import write_files
from patchgen_core.workers.addresses import check_cluster
from tools.releases import FOLDER


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, and print the tables; returns 1 when something is wrong."""
    options = _parse(arguments)
    try:
        walks = choose_walks(options.walks, options.releases)
    except PatchgenError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    are_done = options.tables or _run(walks, options)
    judged = [entry for walk in walks for entry in read_judged(walk, options.folder, options.chosen)]
    print_tables(walks, judged)
    if options.figures is not None:
        write_figures(options.figures, [(walk.name, version, entry) for walk, version, entry in judged])
    return int(not are_done or any(entry.outcome == "wrong" for _, _, entry in judged))


def _run(walks: Sequence[Walk], options: argparse.Namespace) -> bool:
    """Run what is missing of walks, all at a time as far as there are processes; whether all came to their end."""
    try:
        with start_processes(options.jobs, options.on) as processes, ThreadPoolExecutor(len(walks)) as pool:
            return all([*pool.map(lambda walk: run_walk(walk, options, processes), walks)])
    except PatchgenError as error:
        print(f"error: {error}", file=sys.stderr)
        return False


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--walks", nargs="+", default=[], metavar="NAME", help="such as veomni-0.1.12-edits")
    parser.add_argument(
        "--releases", nargs="+", default=RELEASES, choices=RELEASES, metavar="VERSION", help="go through these alone"
    )
    parser.add_argument("--steps", default="..", help="releases to come to, such as 5.9.0..5.12.1")
    parser.add_argument("--configs", nargs="+", default=[], metavar="PATTERN", help="configs that parity runs for")
    parser.add_argument("--no-parity", action="store_true", help="judge by generating and the contract rules alone")
    parser.add_argument("--jobs", type=int, default=1, help="walks at a time, on this machine")
    on = "have a Ray cluster's nodes take steps and judge: ray://host:10001, or ray for the one that is here"
    parser.add_argument("--on", metavar="CLUSTER", help=on)
    parser.add_argument("--folder", type=Path, default=FOLDER.parent / "replay", help="where results are kept")
    parser.add_argument("--tables", action="store_true", help="only print the tables of what is there")
    parser.add_argument("--figures", type=Path, help="write the counts of the chosen walks into a file of such")
    options = parser.parse_args(arguments)
    try:
        options.on = check_cluster("--on", options.on)
    except PatchgenError as error:
        parser.error(str(error))
    first, _, last = options.steps.partition("..")
    unknown = [version for version in (first, last) if version and version not in RELEASES]
    if unknown:
        parser.error(f"--steps: {unknown[0]} is not one of {', '.join(RELEASES)}")
    start = RELEASES.index(first) if first else 0
    end = RELEASES.index(last or (first if ".." not in options.steps else RELEASES[-1]))
    options.chosen = RELEASES[start : end + 1]
    return options


def run_walk(walk: Walk, options: argparse.Namespace, processes: Processes) -> bool:
    """Take the steps of a walk that are missing, and have parity judge those that are chosen; whether that came to its
    end."""
    try:
        _run_walk(walk, options, processes)
    except PatchgenError as error:
        print(f"{walk.name} goes no further: {error}", file=sys.stderr, flush=True)
        return False
    return True


def _run_walk(walk: Walk, options: argparse.Namespace, processes: Processes) -> None:
    home = options.folder / walk.name
    if not (home / f"{walk.start}.json").is_file():
        request = Request("start", walk, walk.start, wheels=find_wheels(walk, [walk.start]))
        values = _keep(home, request, *processes.ask(request))
        print(f"{walk.name} {walk.start}:", *values["problems"] or ["nothing is wrong"], sep="\n  ", flush=True)
    ended: set[str] = set()
    for old, version in zip((walk.start, *walk.steps), walk.steps):
        if RELEASES.index(version) > RELEASES.index(options.chosen[-1]):
            break
        if not (home / f"{version}.json").is_file():
            _take(walk, home, old, version, ended, processes)
        ended |= {*_load_step(home / f"{version}.json").ended}
    if not options.no_parity:
        for old, version in zip((walk.start, *walk.steps), walk.steps):
            if version in options.chosen and (home / f"{version}.json").is_file():
                for release in (old, version):
                    _judge(walk, home / release, options.configs, processes)
                _control(walk, home / old, home / version, processes)


def _take(walk: Walk, home: Path, old: str, version: str, ended: Collection[str], processes: Processes) -> None:
    project, wheels = pack_project(home / old), find_wheels(walk, [old, version])
    wrong = _read(home / f"{old}.json").get("wrong", {})
    request = Request("step", walk, version, old, project, tuple(sorted(ended)), wrong, wheels=wheels)
    values = _keep(home, request, *processes.ask(request))
    patches, broken = values["patches"], values["broken"]
    conflicts = sum(record["how"] == "conflict" for record in patches)
    print(f"{walk.name} {version}: {len(patches)} patches, {conflicts} conflicts, {len(broken)} broken", flush=True)


def _keep(home: Path, request: Request, values: dict[str, Any], project: bytes) -> dict[str, Any]:
    """Write what came of a start or a step into the walk's folder; the project first, which counts by the other."""
    folder = home / request.version
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    unpack_project(project, folder)
    _save(home / f"{request.version}.json", {**values, "revision": _revision()})
    return values


def _judge(walk: Walk, folder: Path, patterns: Sequence[str], processes: Processes) -> None:
    configs = find_unjudged(folder, patterns)
    if not configs:
        return
    wheels = find_wheels(walk, [folder.name], with_needed=True)
    request = Request("gate", walk, folder.name, project=pack_project(folder), configs=configs, wheels=wheels)
    values, _ = processes.ask(request)
    _save(gate_file(folder), read_red(folder) | values["red"])
    count = sum(map(bool, values["red"].values()))
    text = values["problem"] or f"parity judged {len(values['red'])} of {len(configs)} configs; {count} are red"
    print(f"{walk.name} {folder.name}: {text}", flush=True)


def _control(walk: Walk, before: Path, folder: Path, processes: Processes) -> None:
    """Judge the release before without the patches that a step left out, where a config without them is red: where it
    is red then as well, parity cannot tell of the others."""
    step = _load_step(folder.with_name(f"{folder.name}.json"))
    done = read_red(folder, "control")
    red = {label for label, texts in find_new(folder, before).items() if texts and label not in done}
    left_out = tuple((r.config, r.target) for r in step.patches if r.how in ("conflict", "fell") and r.config in red)
    names = {f"{label.rpartition('.')[2]}.py" for label, _ in left_out}
    paths = tuple(p.relative_to(before).as_posix() for p in sorted(before.rglob("*_patch_gen_config.py")))
    configs = tuple(path for path in paths if path.rpartition("/")[2] in names)
    if not configs:
        return
    wheels, project = find_wheels(walk, [before.name], with_needed=True), pack_project(before)
    request = Request("gate", walk, before.name, project=project, configs=configs, left_out=left_out, wheels=wheels)
    values, _ = processes.ask(request)
    _save(gate_file(folder, "control"), done | values["red"])
    left = sum(map(bool, find_new(folder, before).values()))
    text = (
        values["problem"] or f"{len(configs)} configs judged at {before.name} without what is left out; {left} are red"
    )
    print(f"{walk.name} {folder.name}: {text}", flush=True)


def _revision() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _save(path: Path, value: Any) -> None:
    write_files([(path, json.dumps(value, indent=1) + "\n")])


def _read(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values


def _load_step(path: Path) -> StepRecord:
    values = _read(path)
    patches = tuple(
        PatchRecord(**{**entry, "reasons": tuple(entry["reasons"]), "asked": tuple(entry["asked"])})
        for entry in values["patches"]
    )
    broken = {config: tuple(texts) for config, texts in values["broken"].items()}
    return StepRecord(values["old"], values["new"], patches, broken, values["ended"], values.get("wrong", {}))


def read_judged(walk: Walk, folder: Path, chosen: Sequence[str]) -> Iterator[tuple[Walk, str, Judged]]:
    """What each patch came to at each step that was taken."""
    home = folder / walk.name
    for old, version in zip((walk.start, *walk.steps), walk.steps):
        path = home / f"{version}.json"
        if not path.is_file():
            return
        if version in chosen:
            red = find_new(home / version, home / old)
            for entry in judge(_load_step(path), red, find_witnessed(home / version, home / old)):
                yield walk, version, entry


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
    os.nice(15)
    sys.exit(main())
