"""What checks cost, beside the goals for it: exit code 1 when one is missed.

Times are those of whole processes, run in turn in one loop, and their ratios those to ``python -c "import torch"`` in
the same loop. Both projects of ``benchmarks/project.py`` are made in a temporary folder, with the cache beside them:

- 29 configs: cold is without a cache and writes one; for *one config edited* a comment line is put into a config that
  another one imports, so that two must be looked at again and both are clean. The row *and drifts* is the same edit in
  the text of a patch: both configs' files differ, and the check ends with 1 and explains it. pytest runs with no other
  plugin than this one, and without its own cache.
- The last columns have the same figures of a real project that nobody here tuned for, VeOmni 0.1.12: 29 configs for
  transformers 5.9.0, downloaded once, its generated files written anew and clean. Its goals are for the ratios of
  processor time.
- 530 configs, one for every modeling file, with as much to do for each: five methods of some 40 lines are overridden.
  These checks run fewer times, in turn with those of the 29 configs, to whose their ratios are.

    python benchmarks/check.py [--runs 7] [--wide-runs 3] [--skip-530] [--keep FOLDER]

With ``--keep`` the projects stay there, to profile a check of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import phases
from processes import apart, measure, tree_memory
from project import PATCHGEN, amounts, make_project, make_wide_project

TORCH = [sys.executable, "-c", "import torch"]
CHECK = [*PATCHGEN, "--check"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
DRIFT = [*PYTEST, "-p", "pytest_patchgen", "--patchgen", "--patchgen-checks=drift"]
NO_TESTS = 5
IMPORTS = 5
PEAK = 110
GOALS = {"cold": 0.5, "unchanged": 0.05, "edited": 0.20, "pytest": 0.30, "imported": 0.01}
EDITED = "bench/models/qwen2_5_vl/qwen2_5_vl_gpu_patch_gen_config.py"
MARK = ('mark_step("', 'mark_step("edit {}: ')
REAL = "0.1.12"
REAL_GOALS = {"cold": 0.5, "unchanged": 0.05}
REAL_EDITED = "veomni/models/transformers/qwen3_vl/qwen3_vl_gpu_patch_gen_config.py"
REAL_MARK = ("    hidden_states = ", "    hidden_states = {} and ")
WIDE_GOAL = 9


@dataclass(frozen=True)
class Figure:
    """A row of the table.

    Attributes:
        label: what was measured.
        shown: how much it is, with its unit.
        value: what counts; None when nothing is compared.
        goal: the most that ``value`` may be.
        is_ratio: whether ``value`` is a ratio, and not what ``shown`` says.
        cpu: the same ratio of processor time, which other work on the machine changes less.
        judges_cpu: whether the goal is for that.
    """

    label: str
    shown: str
    value: float | None = None
    goal: float | None = None
    is_ratio: bool = True
    cpu: float | None = None
    judges_cpu: bool = False

    @property
    def is_missed(self) -> bool:
        """Whether there is a goal, and it is not reached."""
        value = self.cpu if self.judges_cpu else self.value
        return self.goal is not None and (value is None or value > self.goal)

    @property
    def column(self) -> str:
        """All but the label."""
        ratio, cpu = (_short(ratio) for ratio in (self.value if self.is_ratio else None, self.cpu))
        verdict = "" if self.goal is None else "missed" if self.is_missed else "reached"
        return f"{self.shown:>10}{ratio:>7}{cpu:>7}{_short(self.goal):>6}  {verdict:<7}"


@dataclass(frozen=True)
class Row:
    """A row of the table: a figure, and the one of the real project where there is one."""

    figure: Figure
    real: Figure | None = None

    def __str__(self) -> str:
        real = self.real.column if self.real is not None else ""
        return f"{self.figure.label:<58}{self.figure.column}  {real}".rstrip()

    @property
    def is_missed(self) -> bool:
        """Whether a goal is not reached."""
        return self.figure.is_missed or (self.real is not None and self.real.is_missed)


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if abs(value) >= 0.001 else "0"


@dataclass(frozen=True)
class Place:
    """A project to measure in, its cache, and where it imports upstream from when that is not what is installed."""

    root: Path
    cache: Path
    upstream: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The variables of processes that run there."""
        others = {k: v for k, v in os.environ.items() if not k.startswith(("PATCHGEN_", "PYTEST_"))}
        imports = {"PYTHONPATH": self.upstream} if self.upstream else {}
        return {**others, **imports, "PATCHGEN_CACHE_DIR": str(self.cache), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def forget(self) -> None:
        """Remove the cache."""
        shutil.rmtree(self.cache, ignore_errors=True)

    def run(self, name: str, command: list[str], code: int = 0) -> dict[str, float]:
        """What a command takes that is to end with this code, under its name."""
        usage = measure(command, self.root, self.environment, code)
        return {name: usage.seconds, f"{name}, CPU": usage.cpu, f"{name}, MiB": usage.size}


@dataclass
class Samples:
    """What was measured, by what it is called; a list a round."""

    taken: dict[str, list[float]] = field(default_factory=dict)

    def add(self, values: Mapping[str, float]) -> None:
        """Note the values of a round."""
        for name, value in values.items():
            self.taken.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        """The median of the rounds."""
        return statistics.median(self.taken[name])


class Edits:
    """Edits of one config of a project, no two of them the same. ``drifting`` is a text in a patch of it, and what
    to put there, with ``{}`` for the number of the edit."""

    def __init__(self, config: Path, drifting: tuple[str, str]) -> None:
        self._path, self._drifting = config, drifting
        self._text = self._path.read_text(encoding="utf-8")
        self._count = 0

    def comment(self) -> None:
        """Put a comment line below the docstring."""
        self._replace("\nimport torch\n", "\n# edit {}\nimport torch\n")

    def patch(self) -> None:
        """Change what a replacement does."""
        self._replace(*self._drifting)

    def undo(self) -> None:
        """Make the config what it was."""
        self._path.write_text(self._text, encoding="utf-8")

    def _replace(self, old: str, new: str) -> None:
        if old not in self._text:
            raise SystemExit(f"{self._path} has no {old!r} to edit")
        self._count += 1
        self._path.write_text(self._text.replace(old, new.format(self._count), 1), encoding="utf-8")


def take_round(place: Place, edits: Edits) -> dict[str, float]:
    """Run every command once; what each took."""
    taken = place.run("torch", TORCH)
    place.forget()
    taken |= place.run("cold", CHECK)
    taken |= place.run("unchanged", CHECK)
    taken |= place.run("bare pytest", PYTEST, NO_TESTS)
    taken |= place.run("pytest", DRIFT)
    edits.comment()
    taken |= place.run("edited", CHECK)
    edits.patch()
    taken |= place.run("drifts", CHECK, code=1)
    edits.undo()
    place.forget()
    memory = tree_memory(CHECK, place.root, place.environment)
    return taken if memory is None else {**taken, "tree, MiB": memory}


def take_imports(place: Place) -> list[dict[str, float]]:
    """What ``import patchgen_core`` adds to an interpreter, several times."""
    nothing, imports = ([sys.executable, "-c", code] for code in ("pass", "import patchgen_core"))
    pairs = [(place.run("imported", nothing), place.run("imported", imports)) for _ in range(IMPORTS)]
    return [{name: took[name] - without[name] for name in took} for without, took in pairs]


def measure_narrow(folder: Path, runs: int) -> list[Row]:
    """The rows about the two projects of 29 configs; prints where the time of a check of the made one goes."""
    place, real = make_place(folder, "29", make_project), make_real_place(folder)
    edits, real_edits = Edits(place.root / EDITED, MARK), Edits(real.root / REAL_EDITED, REAL_MARK)
    samples, real_samples, cold, unchanged = Samples(), Samples(), Samples(), Samples()
    for number in range(runs + 1):
        taken, imports = take_round(place, edits), take_imports(place)
        real_taken, real_imports = take_round(real, real_edits), take_imports(real)
        place.forget()
        inside = apart(call_in, place, phases.cold), apart(call_in, place, phases.unchanged)
        if number:  # the first round fills the operating system's caches
            for added in (taken, *imports):
                samples.add(added)
            for added in (real_taken, *real_imports):
                real_samples.add(added)
            cold.add(inside[0])
            unchanged.add(inside[1])
    for title, phase in ("cold", cold), ("nothing changed", unchanged):
        print(f"\n{f'where the time of a check goes: {title}':<58}{'ms':>12}")
        print(*(f"{name:<58}{1000 * phase.median(name):>12.1f}" for name in phase.taken), sep="\n")
    figures, of_real = narrow_figures(samples, GOALS), narrow_figures(real_samples, REAL_GOALS, judges_cpu=True)
    return [Row(*pair) for pair in zip(figures, of_real, strict=True)]


def call_in(place: Place, function: Callable[[Path], Any]) -> Any:
    """Call a function on a project, with the environment of the processes that run there."""
    os.environ.update(place.environment)
    return function(place.root)


def narrow_figures(samples: Samples, goals: Mapping[str, float], judges_cpu: bool = False) -> list[Figure]:
    """The figures of a project of 29 configs; goals are for ratios by the clock, or of processor time."""

    def timed(name: str, label: str) -> Figure:
        seconds = samples.median(name)
        shown = f"{seconds:.2f} s" if seconds >= 0.1 else f"{1000 * seconds:.1f} ms"
        value, cpu = ratios(samples, name, "torch")
        return Figure(label, shown, value, goals.get(name), cpu=cpu, judges_cpu=judges_cpu)

    def held(name: str, label: str, goal: float | None = None) -> Figure:
        size = samples.median(f"{name}, MiB")
        return Figure(label, f"{size:.0f} MiB", size, goal, is_ratio=False)

    figures = [
        timed("torch", 'python -c "import torch"'),
        timed("cold", "patchgen --check, cold"),
        timed("unchanged", "patchgen --check, nothing changed"),
        timed("edited", "patchgen --check, one config edited"),
        timed("drifts", "patchgen --check, one config edited and drifts"),
        timed("bare pytest", "pytest without the plugin, no tests"),
        timed("pytest", "pytest --patchgen --patchgen-checks=drift, nothing changed"),
        timed("imported", "import patchgen_core"),
        held("cold", "peak memory, cold: largest process", PEAK),
    ]
    return figures + [held("tree", "peak memory, cold: all processes together")] * ("tree, MiB" in samples.taken)


def ratios(samples: Samples, name: str, base: str) -> tuple[float, float]:
    """How many times as much one command takes as another: by the clock, and of processor time."""
    by_clock, cpu = (samples.median(name + of) / samples.median(base + of) for of in ("", ", CPU"))
    return by_clock, cpu


def measure_wide(folder: Path, runs: int) -> list[Row]:
    """The rows about the project of 530 configs, whose ratios are those to the check of 29 configs."""
    narrow = Place(folder / "29", folder / "cache-29")
    wide = make_place(folder, "530", make_wide_project)
    samples = Samples()
    for _ in range(runs):  # making the project has filled the operating system's caches
        for name, place in ("29", narrow), ("530", wide):
            place.forget()
            samples.add(place.run(name, CHECK))
            samples.add(place.run(f"{name} unchanged", CHECK))
    (value, cpu), (again, again_cpu) = (ratios(samples, f"530{of}", f"29{of}") for of in ("", " unchanged"))
    cold, unchanged, size = (samples.median(name) for name in ("530", "530 unchanged", "530, MiB"))
    figures = [
        Figure("530 configs, cold", f"{cold:.1f} s", value, WIDE_GOAL, cpu=cpu),
        Figure("530 configs, nothing changed", f"{unchanged:.2f} s", again, cpu=again_cpu),
        Figure("530 configs, cold, peak memory: largest process", f"{size:.0f} MiB"),
    ]
    return [Row(figure) for figure in figures]


def make_place(folder: Path, name: str, make: Callable[[Path], None]) -> Place:
    """Make a project in a folder, and say what it holds."""
    place = Place(folder / name, folder / f"cache-{name}")
    place.root.mkdir(parents=True)
    apart(call_in, place, make)
    held: Mapping[str, int] = apart(amounts, place.root)
    print(", ".join(f"{value:,} {what}" for what, value in held.items()), flush=True)
    return place


def make_real_place(folder: Path) -> Place:
    """Write the real project into a folder, with its generated files as they are made now."""
    place = Place(folder / "real", folder / "cache-real")
    command = [sys.executable, "-m", "tools.real_project", REAL, str(place.root)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], check=True, stdout=subprocess.PIPE, text=True)
    place = replace(place, upstream=done.stdout.strip())
    measure([*CHECK, "--fix"], place.root, place.environment)
    return place


def run(folder: Path, options: argparse.Namespace) -> int:
    """Measure and print; 1 when a goal is missed."""
    rows = measure_narrow(folder, options.runs)
    print_rows(f"medians of {options.runs} runs, ratios to import torch", rows, ("made", "VeOmni"))
    if not options.skip_530:
        wide = measure_wide(folder, options.wide_runs)
        print_rows(f"medians of {options.wide_runs} runs, ratios to 29 configs", wide)
        rows += wide
    return int(any(row.is_missed for row in rows))


def print_rows(title: str, rows: list[Row], columns: Sequence[str] = ("",)) -> None:
    """Print a table, given the heads of its columns."""
    heads = [f"{column:>10}{'ratio':>7}{'CPU':>7}{'goal':>6}  {'':<7}" for column in columns]
    print("\n" + f"{title:<58}{'  '.join(heads)}".rstrip())
    print(*rows, sep="\n", flush=True)


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=7, help="how often each command runs (default: 7)")
    parser.add_argument("--wide-runs", type=int, default=3, help="how often checks of 530 configs run (default: 3)")
    parser.add_argument("--skip-530", action="store_true", help="leave the project of 530 configs out")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the projects in this folder and leave them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patchgen-benchmark-") as folder:
        return run((options.keep or Path(folder)).resolve(), options)


if __name__ == "__main__":
    sys.exit(main())
