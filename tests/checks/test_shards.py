"""A run is divided among jobs: no item is lost or runs twice, and the parts take about as long."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from patchgen_core.checks.shards import Shard, choose_items, read_shard
from patchgen_core.errors import PatchgenError
from tests.conftest import Workspace
from tests.plugin.conftest import run
from tests.plugin.support import make_several

CHECKS = ("drift", "import", "contract", "parity[eager]", "parity[liger_kernel]", "sharded[fsdp2]", "plan")


@pytest.mark.parametrize("seed", range(40))
def test_every_item_is_in_one_part(seed: int) -> None:
    draw = random.Random(seed)
    items = [
        f"models/m{config}/m{config}_patch_gen_config.py::{check}"
        for config in range(draw.randrange(12))
        for check in draw.sample(CHECKS, draw.randrange(1, len(CHECKS) + 1))
    ]
    seconds = {item: draw.choice([0.0, 0.01, 1.0, 300.0]) for item in items if draw.random() < 0.6}
    count = draw.choice([1, 2, 3, 8, 100])
    parts = [choose_items(draw.sample(items, len(items)), Shard(n, count), seconds) for n in range(1, count + 1)]
    assert sorted(item for part in parts for item in part) == sorted(items)


def test_parts_take_about_as_long() -> None:
    items = [f"m{config}_patch_gen_config.py::{check}" for config in range(10) for check in CHECKS]
    seconds = {item: 60.0 if "m0_" in item else 1.0 for item in items}
    loads = [sum(seconds[item] for item in choose_items(items, Shard(n, 4), seconds)) for n in range(1, 5)]
    assert max(loads) - min(loads) <= 60
    together = choose_items(items, Shard(1, 4), {})
    configs = {item.partition("::")[0] for item in together}
    assert together == {item for item in items if item.partition("::")[0] in configs}


def test_a_part_of_nothing_is_green(work: Workspace, pytester: pytest.Pytester) -> None:
    make_several(work)
    arguments = ("--patchgen", "--patchgen-checks=drift", "-p", "no:cacheprovider", "--patchgen-shard=50/50")
    assert run(pytester, work, *arguments).ret == 0
    assert work.patchgen("gate", "--checks=drift", "--shard=50/50").returncode == 0


@pytest.mark.parametrize("text", ["", "2", "0/3", "4/3", "1/0", "-1/3", "a/b", "1/2/3", "1.5/2"])
def test_a_part_that_there_is_not(text: str) -> None:
    with pytest.raises(PatchgenError, match="--shard takes a part and how many there are, such as 2/8"):
        read_shard("--shard", text)


@pytest.fixture
def several(work: Workspace, pytester: pytest.Pytester) -> Workspace:
    make_several(work)
    return work


def items_of(report: Path) -> list[str]:
    return [result["item"] for result in json.loads(report.read_text())["results"]]


def test_jobs_of_the_command_run_everything_once_and_their_reports_merge(several: Workspace) -> None:
    checks = ("gate", "--checks=drift,contract")
    assert several.patchgen(*checks, "--report=whole.json").returncode == 0
    parts = [f"part{number}.json" for number in (1, 2, 3)]
    for number, part in enumerate(parts, 1):
        done = several.patchgen(*checks, f"--shard={number}/3", "--shard-by=whole.json", f"--report={part}")
        assert done.returncode == 0
    items = [items_of(several.root / part) for part in parts]
    assert min(map(len, items)) > 0
    assert sorted(item for part in items for item in part) == sorted(items_of(several.root / "whole.json"))
    assert several.patchgen("report", *parts, "-o", "merged.json").returncode == 0
    assert sorted(items_of(several.root / "merged.json")) == sorted(items_of(several.root / "whole.json"))


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
@pytest.mark.slow
def test_jobs_of_pytest_run_everything_once(
    several: Workspace, pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    static = ("--patchgen", "--patchgen-checks=drift,contract", "-p", "no:cacheprovider", *workers)
    parts = []
    for number in (1, 2):
        report = f"--patchgen-report={number}.json"
        assert run(pytester, several, *static, f"--patchgen-shard={number}/2", report).ret == 0
        parts.append(items_of(several.root / f"{number}.json"))
    assert run(pytester, several, *static, "--patchgen-report=whole.json").ret == 0
    assert min(map(len, parts)) > 0
    assert sorted([*parts[0], *parts[1]]) == sorted(items_of(several.root / "whole.json"))


def test_a_report_without_a_part_is_told(several: Workspace) -> None:
    done = several.patchgen("gate", "--shard-by=whole.json")
    assert (done.returncode, "--shard-by divides what --shard says" in done.stderr) == (2, True)
