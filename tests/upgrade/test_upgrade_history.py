"""What the comparison says of every step of the zoo's upstream, against a table that was made by hand."""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

import pytest

from patchgen_core.config.declarations import Patch
from patchgen_core.project.table import load_project
from patchgen_core.upgrade.package_configs import PackageConfigs, select_configs
from patchgen_core.upgrade.release_module import ReleaseModule
from patchgen_core.upgrade.verdicts.comparing import compare_target
from patchgen_core.workers.collector import without_collector
from tests.upgrade.upgrade_history import HISTORY, RELEASES, verdict_of
from tests.upgrade.upstream_steps import ADDED
from tools.releases import find_releases, sides

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
STEPS = list(pairwise(RELEASES))


@cache
def zoo() -> PackageConfigs:
    return select_configs(load_project(ROOT))


@lru_cache(maxsize=2)  # of each step the newer is the next one's older, and all of them are too many syntax trees
def upstream(version: str) -> dict[str, ReleaseModule]:
    """The zoo's modules as a release has them."""
    modules = zoo().modules
    return sides(zoo().project, find_releases().find(version), modules)


@without_collector()
def wrong_verdicts(old: str, new: str) -> list[str]:
    """What the comparison says other than the table, a line each."""
    wrong = []
    for loaded in zoo().configs:
        module = loaded.config.source_module
        for patch in loaded.config.patches:
            found = compare_target(upstream(old)[module], upstream(new)[module], patch).finding
            right = verdict_of(module.split(".")[2], patch.target, new)
            if found.kind != right:
                wrong.append(f"{loaded.label}: {found}, which is {right}")
    return wrong


@pytest.mark.parametrize(("old", "new"), STEPS, ids=[new for _, new in STEPS])
@pytest.mark.slow
def test_every_step_has_the_verdicts_that_were_read_from_upstreams_texts(old: str, new: str) -> None:
    assert wrong_verdicts(old, new) == []


def test_the_table_is_about_targets_of_the_zoo() -> None:
    targets: dict[str, set[str]] = {}
    for loaded in zoo().configs:
        patches: list[Patch] = loaded.config.patches
        targets.setdefault(loaded.config.source_module.split(".")[2], set()).update(p.target for p in patches)
    assert HISTORY.keys() == targets.keys()
    assert [(model, t) for model, history in HISTORY.items() for t in history if t not in targets[model]] == []
    releases = {s.release for history in HISTORY.values() for h in history.values() if h != ADDED for s in h}
    assert releases <= set(RELEASES)
