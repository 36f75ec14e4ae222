"""Checks of a file that stands beside a config, where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from patchgen_core.build.results import Artifact
from patchgen_core.checks.model_process.check import ModelCheck
from patchgen_core.checks.model_process.process import ModelProcess
from patchgen_core.checks.model_process.request import BesideRequest
from patchgen_core.checks.result import CheckResult
from patchgen_core.errors import Location


class BesideCheck(ModelCheck):
    """A check of what a config makes together with another file of its folder.

    ``function`` is the ``package.module:function`` of what does the check in the process that runs models.
    """

    file: ClassVar[str]
    function: ClassVar[str]

    def items(self, path: Path) -> Iterator[str]:
        """One item, if the file is there."""
        if (path.parent / self.file).is_file():
            yield self.name

    def compare(self, process: ModelProcess, artifact: Artifact, path: Path, item: str, fresh: bool) -> CheckResult:
        """Have the check done; its problems lie in the file."""
        file = path.parent / self.file
        result = check_beside(process, self.function, artifact, file, fresh)
        location = Location(str(file))
        return replace(result, errors=tuple(replace(error, location=location) for error in result.errors))


def check_beside(
    process: ModelProcess, function: str, artifact: Artifact, file: Path, fresh: bool = False
) -> CheckResult:
    """Check a file beside a config against the module that the config makes; ``function`` is the
    ``package.module:function`` of what does it in the process, ``fresh`` takes the text that was generated now."""
    project = process.project
    request = BesideRequest(
        module=project.module_name(artifact.path),
        path=str(artifact.path),
        text=artifact.text if fresh else None,
        upstream=artifact.plan.upstream.module,
        beside=project.module_name(file),
    )
    return process.run(function, artifact.path.name, request)
