"""Generates an adopted config and looks at what the contract rules find."""

from __future__ import annotations

from pathlib import Path

from patchgen_core.authoring.adopt.config_text import Allowed
from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.results import Artifact
from patchgen_core.build.selection import Selection
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.config.loading import Loader
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache

_REASONS = {
    "PG201": "taken over with its own signature: pass by keyword what it has in another place",
    "PG202": "it is called as it was under the monkey patch",
    "PG205": "it returns what it returned under the monkey patch",
    "PG222": "the monkey patch's class lacks it as well",
    "PG223": "it returns what it returned under the monkey patch",
}
"""Rules about what a replacement is, which it was before as well, and why their findings are accepted."""


def examine(project: Project, path: Path) -> tuple[tuple[Allowed, ...], tuple[Problem, ...], tuple[str, ...]]:
    """What an adopted config should allow, what is wrong beside, and a note for each finding that is allowed."""
    loader = Loader(project, SourceCache())
    try:
        [outcome] = make_artifacts(Selection(project, (path,)), loader)
    except PatchgenError as error:
        return (), error.problems, ()
    if outcome.artifact is None:
        return (), tuple(outcome.problems), ()
    verdict = Contracts(project, loader.sources).examine(outcome.artifact, path)
    allowed: dict[tuple[str, str], Allowed] = {}
    wrong, notes = [], []
    for problem in verdict.errors:
        target = _target(outcome.artifact, problem)
        if target and problem.code in _REASONS:
            allowed.setdefault((problem.code, target), Allowed(problem.code, target, _REASONS[problem.code]))
            notes.append(f"allowed: {problem.title}")
        else:
            wrong.append(problem)
    return tuple(allowed.values()), tuple(wrong), tuple(notes)


def _target(artifact: Artifact, problem: Problem) -> str:
    """The target of the patch whose declaration a problem points at; empty when that is not one patch."""
    found = [patch.dotted for patch in artifact.plan.patches if patch.patch.location == problem.location]
    return found[0] if len(found) == 1 else ""
