"""What several files of tests use."""

from __future__ import annotations

import pytest

from tests.codegen.patching import UPSTREAM
from tests.conftest import Workspace


@pytest.fixture
def toy_upstream(work: Workspace) -> None:
    work.upstream(UPSTREAM)
