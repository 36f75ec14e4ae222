"""The checks ``converter`` and ``plan``: of a file that stands beside the config, where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from patchgen_core.build.results import Artifact
from patchgen_core.checks.model_checks.base import ModelCheck, located
from patchgen_core.checks.parity.client import CONVERTER_FILE, PLAN_FILE, ModelChecks
from patchgen_core.checks.parity.verdict import CheckVerdict


class _BesideCheck(ModelCheck):
    """A check of what a config makes together with another file of its folder."""

    file: ClassVar[str]

    def items(self, path: Path) -> Iterator[str]:
        """One item, if the file is there."""
        if (path.parent / self.file).is_file():
            yield self.name


class ConverterCheck(_BesideCheck):
    """The checkpoints of the hub load through the converter, and go back."""

    name = "converter"
    file = CONVERTER_FILE

    def compare(self, process: ModelChecks, artifact: Artifact, path: Path, item: str, fresh: bool) -> CheckVerdict:
        """Compare with what Hugging Face saves and loads."""
        return located(process.converter(artifact, path.parent, fresh), path.parent / self.file)


class PlanCheck(_BesideCheck):
    """The parallel plan fits the parameters."""

    name = "plan"
    file = PLAN_FILE

    def compare(self, process: ModelChecks, artifact: Artifact, path: Path, item: str, fresh: bool) -> CheckVerdict:
        """Match the plan, and apply it on ranks of this machine."""
        return located(process.plan(artifact, path.parent, fresh), path.parent / self.file)
