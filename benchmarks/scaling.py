"""How long a gate takes on a cluster, computed from what items cost on one machine: nothing is run.

Units are shared out as the executor of ``patchgen_core/workers/processes.py`` does it: each process takes the next one
when it is done. The costs are those of a report of the gate, on the processor that it ran on, and figures of a GPU are
a factor of those.

    patchgen gate --report zoo.json && python benchmarks/scaling.py zoo.json
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.report.gate.json import read_seconds

START = 6.0
"""Seconds in which a process of a node imports torch and transformers and has its copy of the project."""
SEND = 0.004
"""Seconds of the one process that hands units out, for each item: its request, its answer and its line."""
ALONE = ("drift", "contract", "orphans")


@dataclass(frozen=True)
class Cluster:
    """Nodes of so many processors each, to which so many gates hand out work."""

    nodes: int
    processors: int
    gates: int = 1


@dataclass(frozen=True)
class Estimate:
    """Hours of a run, and of what bounds it.

    Attributes:
        work: of all processes together, shared out evenly.
        hands: of the process that hands units out and makes configs.
        longest: of the longest unit.
    """

    whole: float
    work: float
    hands: float
    longest: float


@dataclass(frozen=True)
class Costs:
    """What a report tells.

    Attributes:
        units: the seconds and the number of items of each config, of what runs on nodes.
        here: seconds of a config on average, of what runs where the gate was started: drift and contract rules.
    """

    units: Sequence[tuple[float, int]]
    here: float


def read_costs(report: Path) -> Costs:
    """The costs of a report."""
    units: dict[str, tuple[float, int]] = {}
    here = 0.0
    for item, seconds in read_seconds(report, Path.cwd()).items():
        config, _, name = item.partition("::")
        if name.partition("[")[0] in ALONE:
            here += seconds
        else:
            known, count = units.get(config, (0.0, 0))
            units[config] = known + seconds, count + 1
    return Costs(sorted(units.values()), here / len(units))


def estimate(costs: Costs, configs: int, releases: int, devices: Sequence[float], cluster: Cluster) -> Estimate:
    """A run over so many configs and releases on each device, whose items take a factor of the report's seconds."""
    draw = random.Random(0)
    durations: list[float] = []
    items = 0
    for factor in devices:
        for _ in range(configs * releases):
            seconds, count = draw.choice(costs.units)
            durations.append(seconds * factor)
            items += count
    free = [START] * (cluster.nodes * cluster.processors)
    heapq.heapify(free)
    for seconds in durations:
        heapq.heappush(free, heapq.heappop(free) + seconds)
    hands = (items * SEND + configs * releases * costs.here) / cluster.gates
    work = sum(durations) / len(free)
    return Estimate(max(max(free), hands) / 3600, work / 3600, hands / 3600, max(durations) / 3600)


def rows(costs: Costs, processors: int, gpu: float) -> Iterator[tuple[str, Estimate]]:
    """What the page on scaling tells of."""
    devices: Mapping[str, Sequence[float]] = {"cpu": [1.0], "cpu, cuda, npu": [1.0, gpu, gpu]}
    for configs, releases, names, nodes, gates in (
        (300, 1, "cpu", 1, 1),
        (300, 5, "cpu, cuda, npu", 10, 1),
        (10_000, 20, "cpu, cuda, npu", 10, 1),
        (10_000, 20, "cpu, cuda, npu", 100, 1),
        (10_000, 20, "cpu, cuda, npu", 100, 20),
        (10_000, 20, "cpu, cuda, npu", 1000, 20),
    ):
        label = f"{configs:,} x {releases}, {names}, {nodes} nodes, {gates} gates"
        yield label, estimate(costs, configs, releases, devices[names], Cluster(nodes, processors, gates))


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("report", type=Path, help="a .json report of the gate over the zoo")
    parser.add_argument("--processors", type=int, default=16, help="of each node (default: 16)")
    parser.add_argument("--gpu", type=float, default=1.0, help="seconds on a GPU or NPU, as a part of those on a CPU")
    options = parser.parse_args()
    costs = read_costs(options.report)
    units = costs.units
    mean = sum(seconds for seconds, _ in units) / len(units)
    print(f"{len(units)} configs in the report, {mean:.1f} s each on average, {units[-1][0]:.1f} s at most")
    print(f"{costs.here:.2f} s each for drift and contract rules, {SEND * 1000:.0f} ms to hand out an item\n")
    print(f"{'run':<62}{'hours':>8}{'work':>8}{'hands':>8}{'longest':>9}")
    for label, result in rows(costs, options.processors, options.gpu):
        print(f"{label:<62}{result.whole:>8.2f}{result.work:>8.2f}{result.hands:>8.2f}{result.longest:>9.2f}")


if __name__ == "__main__":
    main()
