"""Projects that other folders make."""

import os
from pathlib import Path

import pytest

from patchgen_core.upstream.releases import Releases
from tests.build.conftest import family
from tests.upstream.wheels import make_wheel

__all__ = ["family"]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all that pip knows, with the wheels of some releases."""
    folder = tmp_path / "shop"
    for version in ("1.0", "1.1", "1.9.0", "1.10.0", "2.0rc1"):
        make_wheel(folder, version)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in (("CONFIG_FILE", os.devnull), ("NO_INDEX", "1"), ("FIND_LINKS", str(folder))):
        monkeypatch.setenv(f"PIP_{name}", value)
    return folder


@pytest.fixture
def releases(tmp_path: Path, shop: Path) -> Releases:
    return Releases(tmp_path / "kept/releases", "acme")
