"""An editor that has the server running over a copy of the zoo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lsp.editor import Editor


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.lsp.editor import copy_zoo

    return copy_zoo(tmp_path_factory.mktemp("zoo"))


@pytest.fixture(scope="module")
def editor(zoo: Path) -> Iterator[Editor]:
    from tests.lsp.editor import Editor

    editor = Editor(zoo)
    yield editor
    editor.stop()
