"""Dividing the items of a run among jobs that know nothing of each other.

Each job computes the same division, of the same items by the same durations, and runs its part. What a part depends on
is therefore the same in all jobs: the names of the items, and a report that they are given. What a machine has kept of
earlier runs is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from patchgen_core.errors import PatchgenError

_SHARD = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")
_USUAL_SECONDS = {"parity": 6.0, "sharded": 4.0, "converter": 2.0, "kernel": 1.0, "plan": 1.0, "import": 0.5}
"""How long an item takes of which no report tells, by its check, on the machine that the zoo's costs are of."""
_LEAST = 0.1


@dataclass(frozen=True)
class Shard:
    """One of ``count`` parts, from 1 on."""

    number: int
    count: int


def read_shard(flag: str, text: str) -> Shard:
    """The part that an option names, such as ``2/8``; a PatchgenError where there is no such part."""
    match = _SHARD.fullmatch(text)
    shard = Shard(int(match[1]), int(match[2])) if match else Shard(0, 0)
    if not 1 <= shard.number <= shard.count:
        raise PatchgenError(f"{flag} takes a part and how many there are, such as 2/8, not '{text}'")
    return shard


def choose_items(items: Iterable[str], shard: Shard, seconds: Mapping[str, float]) -> set[str]:
    """The node ids of a part; ``seconds`` has durations of earlier runs, by node id.

    The items of a config stay together, because they share what upstream's model computed, unless they take longer
    than a part should.
    """
    items = sorted(set(items))
    weights = {item: max(seconds.get(item, usual_seconds(item)), _LEAST) for item in items}
    fair = sum(weights.values()) / shard.count
    by_config: dict[str, list[str]] = {}
    for item in items:
        by_config.setdefault(item.partition("::")[0], []).append(item)
    groups: list[list[str]] = []
    for of_config in by_config.values():
        is_heavy = sum(weights[item] for item in of_config) > fair
        groups += [[item] for item in of_config] if is_heavy else [of_config]
    loads = [0.0] * shard.count
    parts: list[set[str]] = [set() for _ in loads]
    for group in sorted(groups, key=lambda group: (-sum(weights[item] for item in group), group)):
        lightest = loads.index(min(loads))
        loads[lightest] += sum(weights[item] for item in group)
        parts[lightest].update(group)
    return parts[shard.number - 1]


def usual_seconds(item: str) -> float:
    """How long an item takes of which nothing is known but its name."""
    return _USUAL_SECONDS.get(item.rpartition("::")[2].partition("[")[0], _LEAST)
