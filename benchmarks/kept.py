"""What the whole gate over the zoo costs when nothing has changed; exit code 1 when the goal for it is missed.

The first run keeps what it finds, which takes minutes where nothing is kept yet. Then runs of the gate and of
``python -c "import torch"`` follow in turn; the ratio is that of their medians.

    python benchmarks/kept.py [--runs 5]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
TORCH = [sys.executable, "-c", "import torch"]
GATE = [sys.executable, "-m", "patchgen_core", "gate", "--output-format", "json"]
GOAL = 1.0


def run(command: Sequence[str]) -> tuple[float, str]:
    """Seconds of a process, and what it wrote; a SystemExit where it fails."""
    start = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(done.stdout[-4000:] + done.stderr)
    return seconds, done.stdout


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    first, _ = run(GATE)
    pairs = [(run(TORCH)[0], run(GATE)[0]) for _ in range(runs)]
    torch, gate = (statistics.median(column) for column in zip(*pairs))
    ratio = gate / torch
    print(f"first run {first:.1f} s; import torch {torch:.2f} s, nothing changed {gate:.2f} s")
    print(f"ratio {ratio:.2f} (goal: {GOAL})")
    return int(ratio > GOAL)


if __name__ == "__main__":
    sys.exit(main())
