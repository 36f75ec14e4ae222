"""A fork server for tests of workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchgen_core.workers.fork_request import ENVIRONMENT
from patchgen_core.workers.fork_server import ForkServer
from tests.workers.forking import PREPARATION


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """A server that has imported a little; the environment does not name it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(ENVIRONMENT, raising=False)
        patch.setenv("PYTEST_OF_THE_SERVER", "which is not handed on")
        with ForkServer([PREPARATION]) as server:
            patch.delenv("PYTEST_OF_THE_SERVER")
            patch.delenv(ENVIRONMENT)
            yield server
