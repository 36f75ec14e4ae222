"""Projects to upgrade."""

from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.upgrade.applied import NORM
from tests.upgrade.upgraded import Upgrading


@pytest.fixture
def upgrading(work: Workspace) -> Upgrading:
    """A project without a config."""
    return Upgrading(work)


@pytest.fixture
def norm(upgrading: Upgrading) -> Upgrading:
    """A project with one config, ``NORM``."""
    upgrading.work.config(NORM)
    upgrading.generate()
    return upgrading
