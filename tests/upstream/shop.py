"""Releases of an upstream package as wheels that pip finds, for tests that compare several of them."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.project.cache_folder import prepare_folder
from patchgen_core.upstream.releases import release_folder
from tests.conftest import UPSTREAM, UPSTREAM_TEXT, Workspace

NORM = "class Norm:\n    def forward(self, x):\n        return x\n"
NOTED = "class Norm:\n    def forward(self, x):\n        return x  # as it is\n"
SCALED = "class Norm:\n    def forward(self, x):\n        return x * self.scale\n"
RMS = "class RMS:\n    def __call__(self, x, eps):\n        return rms(x, eps)\n"
HEAD = "class Head:\n    def forward(self, x):\n        return x + 1\n"
BIASED = "class Head:\n    def forward(self, x, bias):\n        return x + bias\n"
REST = "def rotate(x):\n    return -x\n"
HISTORY: Mapping[str, tuple[str, ...] | None] = {
    "0.9": None,
    "1.0": (NORM, HEAD, REST),
    "1.1": (NORM, HEAD, REST),
    "1.2.0": (NOTED, HEAD, REST),
    "1.2.1": (NOTED, HEAD, REST),
    "1.3": (SCALED, HEAD, REST),
    "1.4rc1": (RMS, HEAD, REST),
    "1.4": (SCALED, HEAD, REST),
    "1.5": (RMS, HEAD, REST),
    "1.6": (RMS, BIASED, REST),
    "1.7": (RMS, BIASED, REST),
    "1.8": (RMS, BIASED, REST),
    "2.0": (RMS, BIASED, REST),
    "2.1rc1": (RMS, BIASED, REST),
}
"""The toy model of each release: its norm gets a comment in 1.2.0, another computation in 1.3 and is gone in 1.5; its
head gets a parameter in 1.6; there is none in 0.9."""
PATCHES = """
@config.override_method("Norm.forward", description="twice")
def norm_forward(self, x):
    return x * 2


@config.override_method("Head.forward", description="twice")
def head_forward(self, x):
    return x + 2
"""


def write_wheel(folder: Path, version: str, parts: tuple[str, ...] | None) -> Path:
    """The wheel of a release of ``acme`` whose toy model has these parts; None for a release without it."""
    files = {"acme/__init__.py": "", "acme/models/__init__.py": ""}
    if parts is not None:
        files |= {"acme/models/toy/__init__.py": "", "acme/models/toy/modeling_toy.py": "\n\n".join(parts)}
    info = f"acme-{version}.dist-info"
    files |= {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: acme\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"acme-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def open_shop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the wheels of all releases, and let pip find these and nothing else."""
    for version, parts in HISTORY.items():
        write_wheel(folder, version, parts)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in (("CONFIG_FILE", os.devnull), ("NO_INDEX", "1"), ("FIND_LINKS", str(folder))):
        monkeypatch.setenv(f"PIP_{name}", value)


def keep(work: Workspace, shop: Path) -> Path:
    """Put the wheels into the project's cache, as downloads do; returns the folder that has one for each release."""
    folder = release_folder(work.project) / "acme"
    prepare_folder(folder)
    for version in HISTORY:
        place = folder / version
        place.mkdir(parents=True)
        shutil.copy(shop / f"acme-{version}-py3-none-any.whl", place)
    return folder


def open_project(work: Workspace, text: str = PATCHES) -> Workspace:
    """A project whose config is generated from release 1.0, which is installed."""
    work.upstream(UPSTREAM_TEXT, UPSTREAM)
    work.config(text)
    fix(work.check())
    return work
