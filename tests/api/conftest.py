"""What several files of tests use."""

from __future__ import annotations

import pytest

from tests.api.toy_project import PATCH, RUFF, UPSTREAM
from tests.conftest import Workspace


@pytest.fixture
def toy(work: Workspace) -> Workspace:
    """A project of one config whose ruff settings show in what is generated."""
    work.upstream(UPSTREAM)
    work.config(PATCH)
    pyproject = work.root / "pyproject.toml"
    pyproject.write_text(pyproject.read_text() + RUFF)
    return work
