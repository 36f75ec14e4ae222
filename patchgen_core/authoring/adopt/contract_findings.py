"""Generates an adopted config and looks at what the contract rules find."""

from __future__ import annotations

from pathlib import Path

from patchgen_core.authoring.generated_config import GeneratedConfig, generate_config
from patchgen_core.config.declarations import Allowance
from patchgen_core.config.loading import Loader
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache

_REASONS = {
    "PG201": "it keeps its own signature: pass by keyword what it has in another position",
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
    targets = {problem: _target(generated, problem) for problem in generated.errors if problem.code in _REASONS}
    allowed = [problem for problem in generated.errors if targets.get(problem)]
    entries = (Allowance(p.code, _REASONS[p.code], targets[p], Location(str(path))) for p in allowed)
    wrong = (problem for problem in generated.errors if problem not in allowed)
    return tuple(dict.fromkeys(entries)), tuple(wrong), tuple(f"allowed: {problem.title}" for problem in allowed)


def _target(generated: GeneratedConfig, problem: Problem) -> str:
    """The target of the patch whose declaration a problem points at; empty when that is not one patch."""
    patches = generated.artifact.plan.patches if generated.artifact is not None else ()
    targets = [patch.dotted for patch in patches if patch.patch.location == problem.location]
    return targets[0] if len(targets) == 1 else ""
