from __future__ import annotations

from collections.abc import Iterator

import pytest
from rank_processes import Ranks


@pytest.fixture(scope="session")
def ranks() -> Iterator[Ranks]:
    group = Ranks()
    yield group
    group.stop()
