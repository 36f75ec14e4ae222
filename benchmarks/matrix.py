"""What ``patchgen matrix`` costs, beside the goal for it: exit code 1 when it is missed.

The zoo of this repository against ten releases of transformers, with the bisection between them and without. The
releases are downloaded first, which is not measured. Times are those of whole processes, and their ratios those to
``python -c "import torch"`` in the same loop.

    python benchmarks/matrix.py [--runs 3] [--versions LIST] [--cache FOLDER]

With ``--cache`` the releases are kept in a folder, and need not be downloaded again.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import measure, tree_memory
from project import PATCHGEN

ROOT = Path(__file__).parents[1]
TORCH = [sys.executable, "-c", "import torch"]
VERSIONS = "5.9.0,5.10.4,5.12.1,5.14.1,5.16.1,5.18.0,5.20.2,5.21.1,5.22.2,5.23.0"
GOAL = 60.0
"""Seconds that the matrix may take with everything downloaded."""


def print_table(runs: int, versions: str, cache: Path) -> bool:
    """Measure and say what was measured; returns whether the goal is missed."""
    environment = {**os.environ, "PATCHGEN_CACHE_DIR": str(cache)}
    command = [*PATCHGEN, "matrix", "--versions", versions]
    subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False)
    torch, whole, plain = [], [], []
    for _ in range(runs):
        torch.append(measure(TORCH, ROOT).seconds)
        whole.append(measure(command, ROOT, environment))
        plain.append(measure([*command, "--no-bisect"], ROOT, environment))
    base = statistics.median(torch)
    peak = tree_memory(command, ROOT, environment)
    print(f"the zoo against {versions.count(',') + 1} releases, medians of {runs} runs")
    print(f"{'':<44}{'s':>8}{'ratio to import torch':>24}{'processor s':>14}")
    print(f"{'import torch':<44}{base:>8.2f}{1:>24.2f}")
    for label, taken in (("matrix, with releases between by bisection", whole), ("matrix --no-bisect", plain)):
        seconds = statistics.median(usage.seconds for usage in taken)
        cpu = statistics.median(usage.cpu for usage in taken)
        print(f"{label:<44}{seconds:>8.2f}{seconds / base:>24.2f}{cpu:>14.2f}")
    if peak is not None:
        print(f"all its processes hold {peak:.0f} MiB at their peak")
    is_missed = statistics.median(usage.seconds for usage in whole) > GOAL
    print(f"goal: under {GOAL:.0f} s: {'missed' if is_missed else 'reached'}")
    return is_missed


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="how often everything runs (default: 3)")
    parser.add_argument("--versions", default=VERSIONS, help="the releases, separated by commas")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="keep the releases in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patchgen-benchmark-") as folder:
        sys.exit(int(print_table(options.runs, options.versions, (options.cache or Path(folder)).resolve())))


if __name__ == "__main__":
    main()
