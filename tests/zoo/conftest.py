"""The zoo, imported in the process of the tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchgen_core.registry import MODEL_CONFIG_REGISTRY, MODEL_PROCESSOR_REGISTRY, MODELING_REGISTRY

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def zoo_on_path() -> Iterator[None]:
    """``import zoo`` works in a test file, and what it registers is gone afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples"))
        for registry in (MODELING_REGISTRY, MODEL_CONFIG_REGISTRY, MODEL_PROCESSOR_REGISTRY):
            patch.setattr(registry, "_entries", {key: dict(found) for key, found in registry._entries.items()})
        yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "zoo"]:
        del sys.modules[name]
