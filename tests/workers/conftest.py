"""A fork server for tests of workers."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from patchgen_core.workers.fork_request import ENVIRONMENT
from patchgen_core.workers.fork_server import ForkServer
from tests.workers.forking import PREPARATION


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """A server that has imported a little; the environment does not name it."""
    server = ForkServer({PREPARATION: ""})
    with pytest.MonkeyPatch.context() as patch:  # for its start alone: other tests have the one that the session began
        patch.delenv(ENVIRONMENT, raising=False)
        patch.setenv("PYTEST_OF_THE_SERVER", "which is not handed on")
        server.start()
        del os.environ[ENVIRONMENT]
    yield server
    server.close()
