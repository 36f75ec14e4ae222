"""Random edits of a project, and after each of them a check with the cache and one without: the same answers.

    python -m tools.random_edits EDITS SEED [zoo | gate | apart | models | mixture] [--overlook PART]

Edits stay until another one takes them back. It runs in an environment of its own, whose ruff is changed as well.
Without a word and with ``zoo`` the check of the drift runs; the one without the cache makes the zoo's configs in
forks, too. With ``gate`` every check runs that needs no model, and one that runs all code of a small project; what is
kept is also shared, removed and cut off. With ``apart`` that one runs in processes which tell what they run. With
``models`` all checks run, over Llama. With ``mixture`` some of all checks run after each edit, over a Mixtral for
which each has an item.
``--overlook`` breaks what results are kept under: a part of it then counts no more (:mod:`tools.overlooked`).
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import random
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
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.gate import Item
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
from tests.checks import edited_gate, edited_mixture, edited_models, world_check
from tools.overlooked import overlook

ROOT = Path(__file__).parents[1]
OTHER_RUFF = ROOT / ".venv/other-ruff/bin/ruff"
"""The oldest that there may be, which ``make`` installs."""
OVERLOOK = "--overlook"
PROGRESS = 20
"""After how many edits a line says how far it is."""
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
    """How a run of edits went.

    Attributes:
        reused: how many configs, or results, came from what is kept.
        statuses: what became of all of them.
        reused_by_check: how many results came from what is kept.
    """

    edits: int
    reused: int
    statuses: Mapping[str, int]
    reused_by_check: Mapping[str, int]


@dataclass(frozen=True)
class World:
    """A project and the question that is asked of it twice: with what is kept or without, and of which items."""

    make: Callable[[Path], Mapping[str, edited_project.States]]
    ask: Callable[[bool, Callable[[Item], bool]], Answer]
    choose: Callable[[random.Random], Callable[[Item], bool]] = lambda chosen: lambda item: True


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
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
    return Tally(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Make edits in the environment that this runs in."""
    edits, seed, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    chosen = random.Random(seed)
    if OVERLOOK in sys.argv:
        overlook(sys.argv[sys.argv.index(OVERLOOK) + 1])
    world = WORLDS[sys.argv[4] if len(sys.argv) > 4 else ""]
    parts = [*(Edit(name, states) for name, states in world.make(folder).items()), Edit("ruff", _ruffs())]
    os.chdir(folder / "work")
    for part in parts:
        part.states[0]()
    first = _ask_drift(True)
    assert first.report is not None, first.text
    fix(first.report)
    log: list[str] = []
    odd: dict[str, Edit] = {}
    reused, statuses, by_check = 0, Counter[str](), Counter[str]()
    for number in range(1, edits + 1):
        log.append(_edit(parts, odd, chosen))
        is_chosen = world.choose(chosen)
        answers = {cached: world.ask(cached, is_chosen) for cached in chosen.sample([True, False], 2)}
        cached, fresh = answers[True], answers[False]
        if cached.text != fresh.text:
            print(*log, "", "with the cache:", cached.text, "", "without it:", fresh.text, sep="\n")
            print(f"seed {seed}: after {number} edits the answers differ")
            sys.exit(1)
        reused += cached.reused
        statuses.update(fresh.statuses)
        if number % PROGRESS == 0:
            print(f"{number} edits, {reused} reused", file=sys.stderr, flush=True)
        by_check.update(result.check for result in cached.results if result.made)
        if fresh.report is not None and chosen.random() < CHANCE_OF_FIXING:
            fix(chosen.choice([cached, fresh]).report or fresh.report, prune=chosen.random() < 0.5)
        elif fresh.report is None and world.ask is not _ask_drift and chosen.random() < CHANCE_OF_FIXING:
            report = _ask_drift(chosen.random() < 0.5).report
            if report is not None:
                fix(report, prune=chosen.random() < 0.5)
            log.append("--fix")
    print(json.dumps({"edits": edits, "reused": reused, "statuses": statuses, "reused_by_check": by_check}))


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


def _ask_drift(cached: bool, _: object = None) -> Answer:
    for name in [name for name in sys.modules if name.partition(".")[0] in edited_project.PASSING]:
        del sys.modules[name]
    importlib.invalidate_caches()
    try:
        project = load_project()
        loader = Recorder(project, SourceCache())
        if cached:
            report = check(Selection(project), loader=loader, cache=Cache(project, Path("cache").absolute()))
        else:
            report = check(Selection(project), with_forks=True)
    except PatchgenError as error:
        return Answer(None, json.dumps(error_data(error.problems), indent=1), 0)
    paths = {result.outcome.path for result in report.results} if cached else set()
    return Answer(report, json.dumps(drift_data(report), indent=1), len(paths - loader.loaded))


def _ask_gate(cached: bool, is_chosen: Callable[[Item], bool]) -> Answer:
    if cached:
        _move_machine()
    return _answer(*world_check.gate(settings=Settings(caching=cached), is_chosen=is_chosen))


def _ask_apart(cached: bool, is_chosen: Callable[[Item], bool]) -> Answer:
    if cached:
        _move_machine()
    return _answer(*world_check.gate(world_check.APART, Settings(caching=cached), is_chosen))


def _ask_models(cached: bool, is_chosen: Callable[[Item], bool]) -> Answer:
    if cached:
        _move_machine()
    settings = Settings(device="cpu", caching=cached, level="quick")
    return _answer(*world_check.gate(BUILT_IN, settings, is_chosen))


def _move_machine() -> None:
    """Now and then be another machine, which has what is shared alone, and knows what is installed on it."""
    if next(_CACHED_RUNS) % 3 == 0:
        for folder in ("results", "checks", "runs"):
            for file in Path(".patchgen_cache", folder).glob("*"):
                if file.name != "contents.json":
                    file.unlink()


def _answer(text: str, results: Sequence[CheckResult]) -> Answer:
    return Answer(None, text, sum(bool(result.made) for result in results), results)


WORLDS: Mapping[str, World] = {
    "": World(edited_project.make, _ask_drift),
    "zoo": World(edited_zoo.make, _ask_drift),
    "gate": World(edited_gate.make, _ask_gate),
    "apart": World(edited_gate.make_asking, _ask_apart),
    "models": World(edited_models.make, _ask_models),
    "mixture": World(edited_mixture.make, _ask_models, edited_mixture.choose),
}


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
