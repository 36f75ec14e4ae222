"""The same bytes come out everywhere, whatever the order and the folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in import compare as drift
from patchgen_core.config.loading import Loader
from patchgen_core.syntax.source import SourceCache
from tests.build.two_configs import OTHER_CONFIG
from tests.conftest import Workspace

MIXED = """
from __future__ import annotations

import math
import os
from typing import Any

try:
    from fast import first, second, third
except ImportError:
    first = second = third = None

__all__ = ["Alpha", "Beta", "Delta", "Gamma", "rotate"]
NAME = "größer ☃"


class Alpha:
    def forward(self, x):
        return x


class Beta(Alpha): ...


class Gamma(Beta):
    def forward(self, x: Alpha) -> Beta:
        '''Größe.'''
        return x


class Delta: ...


class Epsilon: ...


def rotate(x: Any):
    return -x
"""
MIXED_PATCHES = """
from proj.models.toy.shared import scale

config.add_import("functools", names=["partial", "reduce"])
config.add_import("itertools")
config.drop_import_names("third", "first", "math")
config.exclude_from_output("Epsilon", "Delta")
config.add_helper(scale)


@config.replace_class("Alpha", description="Schöner")
class NewAlpha:
    def forward(self, x: "NewBeta | NewAlpha") -> "dict[NewAlpha, NewBeta]":
        return partial(reduce, itertools.chain(NewBeta, NewAlpha, scale(x), turned(x)))


@config.replace_class("Beta")
class NewBeta(NewAlpha):
    pass


@config.override_method("Gamma.forward", name_map={"Old": "Gamma", "Other": "Beta", "Third": "Alpha"})
def gamma_forward(self, x: "Old | Other | Third") -> NewBeta:
    # Größe
    return NewAlpha, NewBeta, turned, scale


@config.replace_function("rotate")
def turned(x):
    return NewAlpha, NewBeta
"""


@pytest.fixture
def mixed(work: Workspace) -> Workspace:
    """A project of two configs that use about everything, and characters that are not ASCII."""
    work.upstream(MIXED)
    work.write("proj/models/toy/shared.py", "def scale(x):\n    return x * 2\n")
    work.config(MIXED_PATCHES)
    path = work.config(MIXED_PATCHES, OTHER_CONFIG)
    path.write_text(path.read_text(encoding="utf-8").replace("toy_gpu.py", "other.py"), encoding="utf-8")
    return work


def texts(work: Workspace) -> dict[str, bytes]:
    return {path.relative_to(work.models).as_posix(): path.read_bytes() for path in work.models.rglob("generated/*")}


def regenerated(work: Workspace, folder: str = ".", environment: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """What a process of its own generates, started in a folder of the project."""
    for old in list(work.models.rglob("generated")):
        shutil.rmtree(old)
    env = {**os.environ, "PYTHONPATH": str(work.site), **(environment or {})}
    command = [sys.executable, "-m", "patchgen_core", "--all", "--diff"]
    done = subprocess.run(command, cwd=work.root / folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return texts(work)


ENVIRONMENTS: dict[str, dict[str, str]] = {
    "locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
    "others": {
        **{"HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent", "USER": "someone", "TZ": "Asia/Tokyo"},
        **{"PYTHONOPTIMIZE": "2", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"},
        **{"RUFF_CONFIG": "/nonexistent.toml", "RUFF_LINE_LENGTH": "20", "RUFF_NO_CACHE": "1"},
    },
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.slow
def test_same_bytes_in_any_environment(mixed: Workspace, name: str) -> None:
    drift.fix(mixed.check())
    before = texts(mixed)
    assert len(before) == 4
    assert regenerated(mixed, environment=ENVIRONMENTS[name]) == before


def test_same_bytes_with_any_hash_seed(mixed: Workspace) -> None:
    """Sets of strings are ordered differently in each of these."""
    first, *others = (regenerated(mixed, environment={"PYTHONHASHSEED": seed}) for seed in ("0", "1", "2"))
    assert all(other == first for other in others)


def test_names_that_change_places_in_an_annotation(work: Workspace) -> None:
    """Each is renamed once, whichever comes first."""
    work.upstream("class Alpha: ...\n\n\nclass Beta: ...\n\n\ndef join(x): ...\n")
    work.config(
        """
        @config.replace_class("Beta")
        class Alpha:
            pass

        @config.replace_class("Alpha")
        class Beta:
            pass

        @config.replace_function("join")
        def join(x: "Alpha | Beta"):
            pass
        """
    )
    assert 'def join(x: "Beta | Alpha"):' in work.text()


@pytest.mark.slow
def test_same_bytes_in_any_working_directory(mixed: Workspace) -> None:
    drift.fix(mixed.check())
    before = texts(mixed)
    for folder in ("proj/models", "proj/models/toy"):
        assert regenerated(mixed, folder) == before


def test_same_bytes_in_another_folder(mixed: Workspace, tmp_path: Path) -> None:
    drift.fix(mixed.check())
    before = texts(mixed)
    moved = tmp_path / "ein Ordner ☃" / "generated" / "work"
    shutil.copytree(mixed.root, moved)
    mixed.root, mixed.models = moved, moved / "proj" / "models"
    assert regenerated(mixed) == before


def test_same_bytes_in_any_order_alone_or_together(mixed: Workspace) -> None:
    paths = mixed.project.find_configs()

    def made(configs: list[Path], full: bool = False) -> dict[Path, tuple[str, str]]:
        loader = Loader(mixed.project, SourceCache(), full=full)
        outcomes = make_artifacts(Selection(mixed.project, configs), loader=loader)
        artifacts = [outcome.artifact for outcome in outcomes]
        return {artifact.path: (artifact.text, artifact.diff) for artifact in artifacts if artifact is not None}

    together = made(paths)
    assert len(together) == 2
    assert made(paths[::-1]) == together
    assert {**made(paths[:1]), **made(paths[1:])} == together
    assert made(paths, full=True) == together
