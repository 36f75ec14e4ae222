"""An editor that has the server running over a copy of the zoo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Workspace

if TYPE_CHECKING:
    from tests.lsp.editor import Editor


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.lsp.editor import copy_zoo

    return copy_zoo(tmp_path_factory.mktemp("zoo"))


@pytest.fixture
def typist(work: Workspace) -> Iterator[Editor]:
    """An editor over an empty project whose upstream is a package of its own."""
    from tests.lsp.editor import Editor

    editor = Editor(work.root, path=work.site)
    yield editor
    editor.stop()


@pytest.fixture(scope="module")
def editor(zoo: Path) -> Iterator[Editor]:
    from tests.lsp.editor import Editor

    editor = Editor(zoo)
    yield editor
    editor.stop()
