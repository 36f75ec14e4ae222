"""What several files of tests use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.config.loading import THIRD, UPSTREAM, site
from tests.conftest import Workspace


@pytest.fixture
def toy_upstream(work: Workspace) -> Iterator[None]:
    work.upstream(UPSTREAM)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] in ("proj", "third", "theirs", "acme")]:
        del sys.modules[name]


@pytest.fixture
def third(work: Workspace) -> Path:
    """A third-party package that really imports."""
    site(work, "third/consts.py", "NAMES = ['unused']\n")
    return site(work, "third/__init__.py", THIRD)
