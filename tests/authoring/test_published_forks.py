"""Forks that projects have published go through ``adopt --fork`` to the same code."""

from __future__ import annotations

import pytest

from patchgen_core.authoring.fork.adopt_fork import adopt_fork
from tests.authoring.forked import link_releases
from tests.conftest import Workspace
from tools.forks import FORKS, PublishedFork
from tools.releases import find_release

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.mark.parametrize("fork", FORKS, ids=lambda fork: fork.name)
def test_a_published_fork_becomes_a_config_that_makes_it(work: Workspace, fork: PublishedFork) -> None:
    find_release(fork.release)
    link_releases(work.root / ".patchgen_cache")
    result = adopt_fork(work.project, fork.find(), release=fork.release)
    assert (result.origin.module, result.left) == (fork.module, ())
    assert result.lines < result.fork_lines
