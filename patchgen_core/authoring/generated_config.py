"""What a config that is being written makes, and what the contract rules say of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.results import Artifact
from patchgen_core.build.selection import Selection
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.config.loading import Loader
from patchgen_core.errors import Problem


@dataclass(frozen=True)
class GeneratedConfig:
    """What a config makes, None where it makes nothing; why, or the findings of the contract rules."""

    artifact: Artifact | None
    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...] = ()


def generate_config(loader: Loader, path: Path) -> GeneratedConfig:
    """Generate the one config of a file and run the contract rules over it; nothing is written.

    Raises:
        PatchgenError: there is no config, or ruff cannot run.
    """
    [outcome] = make_artifacts(Selection(loader.project, (path,)), loader)
    if outcome.artifact is None:
        return GeneratedConfig(None, tuple(outcome.problems))
    verdict = Contracts(loader.project, loader.sources).examine(outcome.artifact, path)
    return GeneratedConfig(outcome.artifact, tuple(verdict.errors), tuple(verdict.warnings))
