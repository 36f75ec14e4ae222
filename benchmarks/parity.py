"""What parity costs on this repository's zoo: each item, and how two workers scale.

Every run is a process of its own, serial ones and ones with workers in turn. The first item of a process imports torch
and transformers; its row says so.

    python benchmarks/parity.py [--runs 3] [--jobs 2]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTEST = [sys.executable, "-m", "pytest", "-p", "pytest_patchgen", "-p", "no:randomly", "-q", "examples/zoo"]
CHECKS = "--patchgen-checks=parity"


def measure(jobs: int, folder: Path) -> tuple[float, dict[str, float]]:
    """Seconds of a whole run, and of each item by its name.

    Raises:
        SystemExit: the run is not green.
    """
    xml = folder / "run.xml"
    start = time.perf_counter()
    command = [*PYTEST, CHECKS, "-n", str(jobs), f"--junitxml={xml}"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if run.returncode:
        raise SystemExit(run.stdout + run.stderr)
    cases = ET.parse(xml).getroot().iter("testcase")
    return seconds, {
        f"{c.get('classname', '').rpartition('.')[2]}::{c.get('name')}": float(c.get("time", 0)) for c in cases
    }


def print_table(runs: int, jobs: int) -> None:
    """Measure and print."""
    serial: list[float] = []
    spread: list[float] = []
    items: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="patchgen-benchmark-") as folder:
        for _ in range(runs):
            seconds, taken = measure(0, Path(folder))
            serial.append(seconds)
            for name, value in taken.items():
                items.setdefault(name, []).append(value)
            spread.append(measure(jobs, Path(folder))[0])
    print(f"{f'medians of {runs} runs, serial':<64}{'s':>8}")
    for number, (name, values) in enumerate(items.items()):
        print(f"{name + ' (with imports)' * (not number):<64}{statistics.median(values):>8.2f}")
    one, many = statistics.median(serial), statistics.median(spread)
    print(f"{'all, serial':<64}{one:>8.2f}\n{f'all, -n {jobs}':<64}{many:>8.2f}\nscaling: {one / many:.2f}")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="how often to run each way (default: 3)")
    parser.add_argument("--jobs", type=int, default=2, help="workers of pytest-xdist (default: 2)")
    options = parser.parse_args()
    print_table(options.runs, options.jobs)


if __name__ == "__main__":
    main()
