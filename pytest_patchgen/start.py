"""Registering the gate with a session."""

from __future__ import annotations

import pytest

from patchgen_core.errors import PatchgenError
from pytest_patchgen.collection import Collection
from pytest_patchgen.reporter import Reporter


def start(config: pytest.Config, is_on: bool, is_asked: bool) -> None:
    """Register what collects and what reports; ``is_on`` and ``is_asked`` are those of :class:`Collection`.

    Raises:
        pytest.UsageError: an option is wrong, or the project is.
    """
    try:
        collection = Collection(config, is_on, is_asked)
        reporter = None if collection.is_worker else Reporter(config, collection)
    except PatchgenError as error:
        raise pytest.UsageError(f"patchgen: {error}") from None
    config.add_cleanup(collection.session.close)
    config.pluginmanager.register(collection, "patchgen_gate")
    if reporter is not None:
        config.pluginmanager.register(reporter, "patchgen_reporter")
