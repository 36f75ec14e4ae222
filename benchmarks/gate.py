"""Where the time of ``pytest --patchgen`` over this repository's zoo goes, by phase.

The run is a process of its own, with this file as a plugin. The checks that run models happen in other processes while
it waits; what these say of their phases stands below the check that asked. Beside each phase stands what it took with
those inside it, whose sum and ``itself`` it is.

    python benchmarks/gate.py [--models llama,qwen3_moe]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from patchgen_core.workers.phases import SEPARATOR, phase, take

ROOT = Path(__file__).parents[1]
ZOO = Path("examples/zoo")
PYTEST = [
    sys.executable,
    "-m",
    "pytest",
    "-p",
    "pytest_patchgen",
    "-p",
    "gate",
    "-p",
    "no:randomly",
    "-q",
    "--patchgen",
    "--patchgen-jobs=1",  # so that phases of a check stand below it
]
_FILE = "PATCHGEN_BENCHMARK_PHASES"
_LEAST = 0.05
Phases = Mapping[str, float]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Count the time of the collection."""
    with phase("collecting"):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Count the time of an item as its check's."""
    with phase(getattr(item, "check", "tests")):
        return (yield)


def pytest_unconfigure() -> None:
    """Write what was counted."""
    Path(os.environ[_FILE]).write_text(json.dumps(take()), encoding="utf-8")


def measure(models: list[str]) -> tuple[float, Phases]:
    """Seconds of a run over some models, or over all of them, and of its phases.

    Raises:
        SystemExit: the run is not green.
    """
    folders = [str(ZOO / model) for model in models] or [str(ZOO)]
    with tempfile.TemporaryDirectory(prefix="patchgen-benchmark-") as folder:
        file = Path(folder) / "phases.json"
        path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
        environment = {**os.environ, _FILE: str(file), "PYTHONPATH": path}
        start = time.perf_counter()
        run = subprocess.run([*PYTEST, *folders], cwd=ROOT, env=environment, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        if run.returncode:
            raise SystemExit(run.stdout + run.stderr)
        return seconds, json.loads(file.read_text(encoding="utf-8"))


def rows(phases: Phases, above: str = "") -> Iterator[tuple[str, float]]:
    """The phases in a phase, longest first, each with those in it below."""
    names = {path.removeprefix(above).partition(SEPARATOR)[0] for path in phases if path.startswith(above)}
    whole = {name: _whole(phases, above + name) for name in names}
    for name in sorted(names, key=lambda name: -whole[name]):
        inside = list(rows(phases, above + name + SEPARATOR))
        depth = "  " * above.count(SEPARATOR)
        yield depth + name, whole[name]
        yield from inside
        if inside:
            yield f"{depth}  itself", phases.get(above + name, 0.0)


def _whole(phases: Phases, path: str) -> float:
    return sum(taken for name, taken in phases.items() if f"{name}{SEPARATOR}".startswith(path + SEPARATOR))


def print_table(models: list[str]) -> None:
    """Measure and print: the tree of phases, then the innermost ones summed over all checks."""
    seconds, phases = measure(models)
    phases = {**phases, "starting and ending pytest": seconds - sum(phases.values())}
    print(f"{'phase':<56}{'s':>8}{'share':>8}")
    _print_rows(rows(phases), seconds)
    print(f"{'all':<56}{seconds:>8.1f}{1:>8.1%}\n\n{'the same by innermost phase':<56}{'s':>8}{'share':>8}")
    sums: dict[str, float] = {}
    for path, taken in phases.items():
        check, *inside = path.split(SEPARATOR)
        name = inside[-1] if inside else f"{check}, itself"
        sums[name] = sums.get(name, 0.0) + taken
    _print_rows(sorted(sums.items(), key=lambda row: -row[1]), seconds)


def _print_rows(taken: Iterable[tuple[str, float]], whole: float) -> None:
    for name, seconds in taken:
        if seconds >= _LEAST:
            print(f"{name:<56}{seconds:>8.1f}{seconds / whole:>8.1%}")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--models", default="", help="folders of the zoo, separated by commas (default: all)")
    print_table(list(filter(None, parser.parse_args().models.split(","))))


if __name__ == "__main__":
    main()
