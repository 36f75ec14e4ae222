"""Random edits of a project, and after each of them a check with the cache and one without: the same answers.

    python -m tools.random_edits EDITS SEED [zoo | gate | models]

Edits stay until another one takes them back. It runs in an environment of its own, whose ruff is changed as well.
Without a word and with ``zoo`` the check of the drift runs. With ``gate`` every check runs that needs no model, and
one that runs all code of a small project; what is kept is also shared, removed and cut off. With ``models`` all checks
run, over Llama.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen_core.build.cache import Cache
from patchgen_core.build.results import DriftReport
from patchgen_core.build.ruff_setup import find_ruff
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.compare import check, fix
from patchgen_core.checks.registry import BUILT_IN
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.settings import Settings
from patchgen_core.errors import PatchgenError
from patchgen_core.project.table import load_project
from patchgen_core.report.data import error_data
from patchgen_core.report.drift.json import drift_data
from patchgen_core.syntax.source import SourceCache
from tests.build import edited_project, edited_zoo
from tests.build.cached import Recorder
from tests.checks import edited_gate, edited_models

ROOT = Path(__file__).parents[1]
OTHER_RUFF = ROOT / ".venv/other-ruff/bin/ruff"
"""The oldest that there may be, which ``make`` installs."""
CHANCE_OF_FIXING = 0.4
CHANCE_OF_TAKING_BACK = 0.5
_CACHED_RUNS = itertools.count(1)


@dataclass(frozen=True)
class Edit:
    """A part of the project, and how to bring it into each of its states; the first is the usual one."""

    part: str
    states: Sequence[Callable[[], object]]


@dataclass(frozen=True)
class Tally:
    """How a run of edits went: how many configs came from the cache, and what became of all of them."""

    edits: int
    reused: int
    statuses: Mapping[str, int]


@dataclass(frozen=True)
class Answer:
    """The report of a check of the drift, or the results of others; all that is said of it, and how many configs were
    not loaded for it, or how many results were kept."""

    report: DriftReport | None
    text: str
    reused: int
    results: Sequence[CheckResult] = ()

    @property
    def statuses(self) -> list[str]:
        """What became of each config, or of each item."""
        if self.report is None:
            return [f"{result.check} {result.status}" for result in self.results] or ["refused"]
        return [result.status for result in self.report.results]


def run_apart(edits: int, seed: int, folder: Path, *arguments: str) -> Tally:
    """Make edits in a process whose environment lies in the folder.

    Raises:
        AssertionError: the answers differ.
    """
    assert OTHER_RUFF.is_file(), "there is no other ruff: 'make' installs it"
    venv.create(folder / "env", symlinks=os.name == "posix", with_pip=False)
    scripts = {"base": str(folder / "env"), "platbase": str(folder / "env")}
    packages = Path(sysconfig.get_path("purelib", vars=scripts))
    (packages / "beside.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n", encoding="utf-8")
    python = Path(sysconfig.get_path("scripts", vars=scripts), "python")
    path = os.pathsep.join(str(folder / name) for name in ("front", "site"))
    env = {**os.environ, "PYTHONPATH": path, "USUAL": find_ruff(), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(python), "-m", "tools.random_edits", str(edits), str(seed), str(folder), *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return Tally(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Make edits in the environment that this runs in."""
    edits, seed, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    chosen = random.Random(seed)
    world, ask = WORLDS[sys.argv[4] if len(sys.argv) > 4 else ""]
    parts = [*(Edit(name, states) for name, states in world(folder).items()), Edit("ruff", _ruffs())]
    os.chdir(folder / "work")
    for part in parts:
        part.states[0]()
    first = _ask_drift(cached=True)
    assert first.report is not None, first.text
    fix(first.report)
    log: list[str] = []
    odd: dict[str, Edit] = {}
    reused, statuses = 0, Counter[str]()
    for _ in range(edits):
        log.append(_edit(parts, odd, chosen))
        answers = {cached: ask(cached) for cached in chosen.sample([True, False], 2)}
        cached, fresh = answers[True], answers[False]
        if cached.text != fresh.text:
            print(*log, "", "with the cache:", cached.text, "", "without it:", fresh.text, sep="\n")
            sys.exit(f"seed {seed}: after {len(log)} edits the answers differ")
        reused += cached.reused
        statuses.update(fresh.statuses)
        if fresh.report is not None and chosen.random() < CHANCE_OF_FIXING:
            fix(chosen.choice([cached, fresh]).report or fresh.report, prune=chosen.random() < 0.5)
        elif fresh.report is None and ask is not _ask_drift and chosen.random() < CHANCE_OF_FIXING:
            report = _ask_drift(cached=chosen.random() < 0.5).report
            if report is not None:
                fix(report, prune=chosen.random() < 0.5)
            log.append("--fix")
    print(json.dumps({"edits": edits, "reused": reused, "statuses": statuses}))


def _edit(parts: Sequence[Edit], odd: dict[str, Edit], chosen: random.Random) -> str:
    """Bring a part into another state; ``odd`` holds those that are not in their usual one."""
    if odd and chosen.random() < CHANCE_OF_TAKING_BACK:
        part, number = chosen.choice(list(odd.values())), 0
        del odd[part.part]
    else:
        part = chosen.choice(parts)
        number = chosen.randrange(1, len(part.states))
        odd[part.part] = part
    part.states[number]()
    return f"{part.part}: {number}"


def _ask_drift(cached: bool) -> Answer:
    for name in [name for name in sys.modules if name.partition(".")[0] in edited_project.PASSING]:
        del sys.modules[name]
    importlib.invalidate_caches()
    try:
        project = load_project()
        loader = Recorder(project, SourceCache())
        report = check(
            Selection(project), loader=loader, cache=Cache(project, Path("cache").absolute()) if cached else None
        )
    except PatchgenError as error:
        return Answer(None, json.dumps(error_data(error.problems), indent=1), 0)
    paths = {result.outcome.path for result in report.results}
    return Answer(report, json.dumps(drift_data(report), indent=1), len(paths - loader.loaded))


def _ask_gate(cached: bool) -> Answer:
    if cached and next(_CACHED_RUNS) % 3 == 0:  # another machine, which has what is shared alone
        shutil.rmtree(".patchgen_cache", ignore_errors=True)
    text, results = edited_gate.gate(settings=Settings(caching=cached))
    return Answer(None, text, sum(bool(result.made) for result in results), results)


def _ask_models(cached: bool) -> Answer:
    text, results = edited_gate.gate(BUILT_IN, edited_models.settings(cached))
    return Answer(None, text, sum(bool(result.made) for result in results), results)


WORLDS: Mapping[str, tuple[Callable[[Path], Mapping[str, edited_project.States]], Callable[[bool], Answer]]] = {
    "": (edited_project.make, _ask_drift),
    "zoo": (edited_zoo.make, _ask_drift),
    "gate": (edited_gate.make, _ask_gate),
    "models": (edited_models.make, _ask_models),
}
"""The projects, each with the question that is asked twice."""


def _ruffs() -> list[Callable[[], Any]]:
    """Both ruffs, each to be the one of this environment."""
    mine = Path(sysconfig.get_path("scripts"), "ruff")

    def install(binary: Path) -> None:
        mine.unlink(missing_ok=True)
        mine.symlink_to(binary)

    binaries = [Path(os.environ["USUAL"]), OTHER_RUFF]
    return [lambda binary=binary: install(binary) for binary in binaries]


if __name__ == "__main__":
    if len(sys.argv) > 3 and Path(sys.argv[3], "env").is_dir():
        main()
    else:
        with tempfile.TemporaryDirectory() as folder:
            print(run_apart(int(sys.argv[1]), int(sys.argv[2]), Path(folder), *sys.argv[3:]))
