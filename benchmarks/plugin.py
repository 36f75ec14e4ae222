"""What the pytest plugin costs: installed and not switched on, when it collects, and when it checks drift.

Uses the project of ``benchmarks/project.py``, and runs everything in turn, each as a process of its own.

    python benchmarks/plugin.py [--runs 11]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from processes import apart, measure
from project import PATCHGEN, make_project

PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
OFF, WITHOUT = "pytest, plugin not switched on", "pytest -p no:pytest_patchgen"
IN_TESTS = {WITHOUT: [*PYTEST, "-p", "no:pytest_patchgen"], OFF: PYTEST}
IN_PROJECT = {
    "import torch": [sys.executable, "-c", "import torch"],
    "patchgen --check, nothing changed": [*PATCHGEN, "--check"],
    "pytest --patchgen --collect-only": [*PYTEST, "--patchgen", "--collect-only"],
    "pytest --patchgen-checks=drift, nothing changed": [*PYTEST, "--patchgen-checks=drift"],
    "pytest --patchgen-checks=drift --patchgen-no-cache": [*PYTEST, "--patchgen-checks=drift", "--patchgen-no-cache"],
}


def print_table(folder: Path, runs: int) -> None:
    """Measure in a folder with one test, and in the project of 29 configs."""
    tests, project = folder / "tests", folder / "project"
    tests.mkdir()
    project.mkdir()
    (tests / "test_one.py").write_text("def test_one():\n    pass\n")
    (tests / "pytest.ini").write_text("[pytest]\n")
    apart(make_project, project)
    samples: dict[str, list[float]] = {}
    for _ in range(runs + 1):  # the first run fills the operating system's caches and does not count
        for commands, root in ((IN_TESTS, tests), (IN_PROJECT, project)):
            for name, command in commands.items():
                samples.setdefault(name, []).append(measure(command, root)[0])
    torch = statistics.median(samples["import torch"][1:])
    print(f"{f'medians of {runs} runs':<52}{'s':>8}{'ratio to import torch':>24}")
    for name, taken in samples.items():
        seconds = statistics.median(taken[1:])
        print(f"{name:<52}{seconds:>8.3f}{seconds / torch:>24.2f}")
    overhead = statistics.median(off - without for off, without in list(zip(samples[OFF], samples[WITHOUT]))[1:])
    print(f"\noverhead when not switched on: {1000 * overhead:.1f} ms (median of the differences; goal: under 20)")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=11, help="how often each command runs (default: 11)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patchgen-benchmark-") as folder:
        print_table(Path(folder), options.runs)


if __name__ == "__main__":
    main()
