"""How much faster two nodes of a Ray cluster run the gate over this repository's zoo than one, from nothing.

Each node has one processor of this machine to itself, ranks included, and the head runs nothing; what asks runs
beside them. Both run the same: all checks of all models, or of those that are named, with nothing kept. Exit code 1
when two nodes are not 1.8 times as fast, or a run is not green.

    python benchmarks/cluster.py [--models llama,qwen3] [--level standard] [--runs 1]

It needs the extra ``ray``, as ``make slow`` installs it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from processes import measure
from project import PATCHGEN

from tools.ray_cluster import start_cluster

ROOT = Path(__file__).parents[1]
ZOO = ROOT / "examples/zoo"
GOAL = 1.8
NODES = (1, 2)


def run_gate(nodes: int, models: list[str], level: str) -> float:
    """Seconds that a gate takes on a cluster which is already there."""
    folders = [str(ZOO / model) for model in models] or [str(ZOO)]
    command = [*PATCHGEN, "gate", "--no-cache", "--on", "ray", "--level", level, *folders]
    with start_cluster(nodes, are_apart=True) as cluster, tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "RAY_ADDRESS": cluster.address, "PATCHGEN_CACHE_DIR": cache}
        return measure(command, ROOT, environment).seconds


def main() -> int:
    """Measure, print a table, and say whether the goal is reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=[])
    parser.add_argument("--level", default="standard")
    parser.add_argument("--runs", type=int, default=1)
    arguments = parser.parse_args()
    taken: dict[int, list[float]] = {nodes: [] for nodes in NODES}
    for _ in range(arguments.runs):
        for nodes in NODES:
            taken[nodes].append(run_gate(nodes, arguments.models, arguments.level))
    one, two = (statistics.median(taken[nodes]) for nodes in NODES)
    print(f"one node {one:8.1f} s\ntwo nodes {two:7.1f} s\ntimes as fast {one / two:.2f} (goal: {GOAL})")
    return int(one / two < GOAL)


if __name__ == "__main__":
    sys.exit(main())
