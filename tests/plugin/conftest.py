"""A session of pytest in a throw-away project."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from tests.conftest import Workspace, import_gate
from tests.python_server import start_python

CONFIG = "proj/models/toy/toy_gpu_patch_gen_config.py"
"""The config of the ``gated`` workspace as it is called in node ids."""

_OURS = ("PYTEST_", "GITHUB_", "COV_", "CI", "BUILD_NUMBER", "NO_COLOR", "FORCE_COLOR")
_APART = (" -n", " --cov", " --timeout")
_BESIDE = {"anyio": "-p anyio", "pytest-split": "--splits", "pytest_cov": "--cov", "rerunfailures": "--reruns"}
"""Plugins of others, and the options that need them."""

import_gate()  # else each session of this process would import it anew


def environment(work: Workspace, **more: str) -> dict[str, str]:
    """What a session in a process of its own sees: nothing of the outer session or of the CI that runs it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {**clean, "COLUMNS": "120", "PYTHONPATH": str(work.site), **more}


def run(
    pytester: pytest.Pytester,
    work: Workspace,
    *arguments: str,
    cwd: Path | None = None,
    apart: bool = False,
    **environment: str,
) -> pytest.RunResult:
    """Run pytest with the workspace's root as rootdir, and in that folder unless ``cwd`` names another.

    It sees ``environment``, and nothing of the outer session or of the CI that runs it. ``-p randomly`` among the
    arguments brings pytest-randomly back. Other plugins that no argument asks for stay out: that of anyio, which comes
    with transformers, takes a third of the time that pytest needs to start.

    The session is one of this process, which spares half of the time, unless ``apart`` asks for a process of its own:
    for a test that looks at what a session imports. One with workers, whose search path is that of the process that
    starts them, and one that measures or interrupts a process, is forked with what such sessions import.
    """
    options = " ".join(["", *map(str, arguments)]).replace(" -n 0", "").replace(" -n0", "")
    without = [f"-pno:{name}" for name, option in _BESIDE.items() if option not in options]
    is_apart = apart or any(option in options for option in _APART) or "PYTHONPATH" in environment
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(_OURS)]:
            patch.delenv(name)
        for name, value in {"COLUMNS": "120", "PYTHONPATH": str(work.site), **environment}.items():
            patch.setenv(name, value)
        patch.chdir(cwd or work.root)
        if is_apart and not apart:
            return run_forked(pytester, f"--rootdir={work.root}", "-pno:randomly", *without, *arguments)
        start = pytester.runpytest_subprocess if is_apart else pytester.runpytest_inprocess
        return start(f"--rootdir={work.root}", "-pno:randomly", *without, *arguments)


def run_forked(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """``runpytest_subprocess``, in a process that is forked from one that has imported pytest and the gate."""

    def popen(command: Sequence[str], stdin: Any, stdout: IO[str], stderr: IO[str]) -> Any:
        path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "PYTHONPATH": path}
        process = start_python(command, Path.cwd(), env, None, stdout.fileno(), stderr.fileno())
        return process or start_process(command, stdin=stdin, stdout=stdout, stderr=stderr)

    start_process = pytester.popen
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pytester, "popen", popen)
        return pytester.runpytest_subprocess(*arguments)


@pytest.fixture
def gated(gated: Workspace, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The clean project, as the working directory, with upstream on ``PYTHONPATH``."""
    monkeypatch.chdir(gated.root)
    monkeypatch.setenv("PYTHONPATH", str(gated.site))
    return gated
