"""A session of pytest in a process of its own, in a throw-away project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import Workspace

CONFIG = "proj/models/toy/toy_gpu_patch_gen_config.py"
"""The config of the ``gated`` workspace as it is called in node ids."""

_OURS = ("PYTEST_", "GITHUB_", "COV_", "CI", "BUILD_NUMBER", "NO_COLOR", "FORCE_COLOR")


def run(
    pytester: pytest.Pytester, work: Workspace, *arguments: str, cwd: Path | None = None, **environment: str
) -> pytest.RunResult:
    """Run pytest with the workspace's root as rootdir, and in that folder unless ``cwd`` names another.

    It sees ``environment``, and nothing of the outer session or of the CI that runs it. ``-p randomly`` among the
    arguments brings pytest-randomly back. The plugin of anyio, which comes with transformers and takes a third of the
    time that pytest needs to start, stays out.
    """
    without = ("-p", "no:randomly", "-p", "no:anyio")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(_OURS)]:
            patch.delenv(name)
        for name, value in {"COLUMNS": "120", "PYTHONPATH": str(work.site), **environment}.items():
            patch.setenv(name, value)
        patch.chdir(cwd or work.root)
        return pytester.runpytest_subprocess(f"--rootdir={work.root}", *without, *arguments)


@pytest.fixture
def gated(gated: Workspace, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The clean project, as the working directory, with upstream on ``PYTHONPATH``."""
    monkeypatch.chdir(gated.root)
    monkeypatch.setenv("PYTHONPATH", str(gated.site))
    return gated
