"""How long the contracts take, by rule, and as a ratio to ``import torch`` in the same run.

Uses the project of ``benchmarks/project.py``. Its artifacts are made first; then every rule runs over all of them, in
one process and nothing but rules. What rules share - the modules' syntax trees, their scopes, what calls call - is
made by whichever asks first, so a rule alone takes longer than what it adds to the others: there is a column for each.

    python benchmarks/contracts.py [--runs 7] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from processes import apart, measure
from project import make_project

TORCH = [sys.executable, "-c", "import torch"]
PARSING, WALKING, KERNELS = "parsing generated modules", "scopes of both modules", "registered kernels"


def timings(root: Path) -> tuple[float, dict[str, float], dict[str, float], int]:
    """Seconds of all contracts, of each part in a run of all, and of each rule by itself; and how many configs."""
    from patchgen_core.build.artifacts import make_artifacts
    from patchgen_core.build.selection import Selection
    from patchgen_core.checks.contract.run import Contracts
    from patchgen_core.config.loading import Loader
    from patchgen_core.project.table import load_project
    from patchgen_core.syntax.source import SourceCache

    project = load_project(root)
    sources = SourceCache()
    outcomes = make_artifacts(Selection(project, project.find_configs()), loader=Loader(project, sources))
    made = [(outcome.artifact, outcome.path) for outcome in outcomes if outcome.artifact is not None]

    def examined(codes: list[str] | None = None) -> float:
        contracts = Contracts(project, sources, codes)
        started = time.perf_counter()
        for artifact, path in made:
            contracts.examine(artifact, path)
        return time.perf_counter() - started

    whole = examined()
    alone = {rule.code: examined([rule.code]) for rule in Contracts(project, sources).rules}
    return whole, parts(Contracts(project, sources), made), alone, len(made)


def parts(contracts: Any, made: list[tuple[Any, Path]]) -> dict[str, float]:
    """The seconds of everything that contracts do, none counted twice."""
    seconds: dict[str, float] = {}

    def clock(name: str, function: Any) -> Any:
        started = time.perf_counter()
        result = function()
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - started
        return result

    gc.disable()  # as an examination does
    clock(KERNELS, lambda: contracts.kernels)
    for artifact, _ in made:
        subject = clock(PARSING, lambda: contracts.subject(replace(artifact)))  # noqa: B023
        clock(WALKING, lambda: (subject.generated.calls, subject.upstream.calls))  # noqa: B023
        for rule in contracts.rules:
            clock(rule.code, lambda: list(rule.check(subject)))  # noqa: B023
    return seconds


def print_table(root: Path, runs: int) -> None:
    """Make the project in ``root``, measure its contracts and say what was measured."""
    apart(make_project, root)
    torch, taken = [], []
    for _ in range(runs + 1):  # the first run fills the operating system's caches and does not count
        torch.append(measure(TORCH, root)[0])
        taken.append(apart(timings, root))
    base = statistics.median(torch[1:])
    whole = statistics.median(entry[0] for entry in taken[1:])
    print(f"contracts of {taken[0][3]} configs, medians of {runs} runs")
    print(f"{'':<40}{'s':>8}{'ratio to import torch':>24}")
    print(f"{'import torch':<40}{base:>8.2f}{1:>24.2f}")
    print(f"{'all contracts (goal: under 2 s)':<40}{whole:>8.2f}{whole / base:>24.2f}")
    print(f"\n{'where the time goes':<40}{'s':>8}{'of all':>8}{'alone':>16}")
    for name in taken[0][1]:
        seconds = statistics.median(entry[1][name] for entry in taken[1:])
        by_itself = [entry[2][name] for entry in taken[1:] if name in entry[2]]
        shown = f"{statistics.median(by_itself):>16.3f}" if by_itself else ""
        print(f"{name:<40}{seconds:>8.3f}{seconds / whole:>8.0%}{shown}")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=7, help="how often everything runs (default: 7)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the project in this folder and leave it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patchgen-benchmark-") as folder:
        root = (options.keep or Path(folder, "project")).resolve()
        root.mkdir(parents=True)
        print_table(root, options.runs)


if __name__ == "__main__":
    main()
