"""A copy of the zoo for editors to work on."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.lsp.editor import copy_zoo

    return copy_zoo(tmp_path_factory.mktemp("zoo"))
