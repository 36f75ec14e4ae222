"""A generated module to import, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable

from patchgen_core.build.results import Artifact
from patchgen_core.checks.result import CheckResult
from tests.conftest import Workspace

NAME = "patched_modeling_toy_gpu.py"
Import = Callable[..., CheckResult]


def artifact_of(work: Workspace) -> Artifact:
    outcome = work.outcome()
    assert outcome.artifact is not None, outcome.problems
    return outcome.artifact


def only(verdict: CheckResult) -> str:
    """The message of the one problem."""
    (problem,) = verdict.errors
    return problem.message
