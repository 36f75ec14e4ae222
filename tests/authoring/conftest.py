"""What several files of tests use."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.authoring.monkey_patches import KERNELS, UPSTREAM_TEXT, write
from tests.conftest import Workspace


@pytest.fixture
def site(work: Workspace) -> Iterator[Workspace]:
    """A project with an upstream and a package of kernels that can be imported."""
    work.upstream(UPSTREAM_TEXT)
    for init in work.site.rglob("__init__.py"):
        init.write_text("")
    write(work, "kernels.py", KERNELS)
    yield work
    for name in list(sys.modules):
        if name.partition(".")[0] in ("acme", "kernels", "patches"):
            del sys.modules[name]
