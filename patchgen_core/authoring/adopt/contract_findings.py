"""Generates an adopted config and looks at what the contract rules find."""

from __future__ import annotations

from pathlib import Path

from patchgen_core.authoring.generated_config import generate_config
from patchgen_core.build.results import Artifact
from patchgen_core.config.declarations import Allowance
from patchgen_core.config.loading import Loader
from patchgen_core.errors import Location, PatchgenError, Problem
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


def examine(project: Project, path: Path) -> tuple[tuple[Allowance, ...], tuple[Problem, ...], tuple[str, ...]]:
    """What an adopted config should allow, what is wrong beside, and a note for each finding that is allowed."""
    try:
        generated = generate_config(Loader(project, SourceCache()), path)
    except PatchgenError as error:
        return (), error.problems, ()
    allowances: dict[tuple[str, str], Allowance] = {}
    wrong, notes = [], []
    for problem in generated.errors:
        target = _target(generated.artifact, problem) if generated.artifact is not None else ""
        if target and problem.code in _REASONS:
            allowance = Allowance(problem.code, _REASONS[problem.code], target, Location(str(path)))
            allowances.setdefault((problem.code, target), allowance)
            notes.append(f"allowed: {problem.title}")
        else:
            wrong.append(problem)
    return tuple(allowances.values()), tuple(wrong), tuple(notes)


def _target(artifact: Artifact, problem: Problem) -> str:
    """The target of the patch whose declaration a problem points at; empty when that is not one patch."""
    targets = [patch.dotted for patch in artifact.plan.patches if patch.patch.location == problem.location]
    return targets[0] if len(targets) == 1 else ""
