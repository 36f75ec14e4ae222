"""What the checks that run models and kernels share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from patchgen_core.build.results import Artifact, ConfigResult
from patchgen_core.checks.check import Check
from patchgen_core.checks.fork_server import share_imports
from patchgen_core.checks.kept.asking import kept_of_project
from patchgen_core.checks.model_process.process import TIME_LIMIT, ModelProcess
from patchgen_core.checks.model_process.request import BesideRequest
from patchgen_core.checks.result import CheckResult, with_errors
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import ACCELERATORS
from patchgen_core.errors import Location
from patchgen_core.files import read_text
from patchgen_core.models.run_files import RunPlace
from patchgen_core.project.project import Project

DRIFTED = "The generated file has drifted: fix that first."
"""What to add to the problems of a model that is not what its config makes."""


def model_process(session: Session, project: Project) -> ModelProcess:
    """The process that runs a project's models and kernels, one for all checks of a session."""
    settings = session.settings
    limit = settings.time_limit if settings.time_limit is not None else TIME_LIMIT

    def make() -> ModelProcess:
        share_imports(session)
        return ModelProcess(project, settings.device, settings.isolate, limit, settings.setups, find_runs)

    def find_runs() -> RunPlace | None:
        kept = kept_of_project(session, project)
        return kept.find_run_place() if kept is not None else None

    return session.resource(project, ModelProcess, make)


def refuse_device(session: Session, project: Project | None) -> None:
    """Raise a PatchgenError where torch has not the device that a run wants."""
    if session.settings.device in ACCELERATORS:
        folder = Path.cwd()
        model_process(session, project or Project(folder, "nowhere", root=folder)).refuse_device()


def refuse_setup(session: Session, project: Project | None) -> None:
    """Raise a PatchgenError where a set-up of the project's models fails."""
    if project is not None and (project.setup or session.settings.setups):
        model_process(session, project).refuse_setup()


class ModelCheck(Check):
    """A check that runs the models of generated modules."""

    runs_ahead = True

    def refuse_machine(self, project: Project | None) -> None:
        """Ask for what the project's set-ups need, and for the device."""
        refuse_setup(self.session, project)
        if self.on_device:
            refuse_device(self.session, project)

    def prepare(self, project: Project) -> None:
        """Have the process import torch and transformers."""
        model_process(self.session, project).prepare()

    def run(self, path: Path, item: str) -> Iterable[CheckResult]:
        """Run the models of the checked-in modules, or of what a run that rewrites files puts there."""
        return [self._run(result, item) for result in self.session.results(path)]

    def _run(self, result: ConfigResult, item: str) -> CheckResult:
        artifact = result.outcome.artifact
        is_fixed = self.session.is_fixed(result)
        if artifact is None or (not is_fixed and not artifact.path.exists()):
            return self.nothing_made(result, "there is no model to run: the drift check says why")
        process = model_process(self.session, self.session.project(result.outcome.path))
        compared = self.compare(process, artifact, result.outcome.path, item, is_fixed)
        if result.status == "drifted" and not is_fixed:
            errors = [replace(error, hint=f"{error.hint} {DRIFTED}".strip()) for error in compared.errors]
            # Which lines are new is not known of a module that has drifted, so that what allows PG302 looks idle.
            compared = replace(with_errors(compared, errors), unused=())
        outcome = result.outcome
        return replace(
            compared,
            config=outcome.label,
            path=str(outcome.path),
            line=outcome.line,
            check=self.name,
            siblings=self.siblings(outcome.path) if compared.unused else (),
        )

    def siblings(self, path: Path) -> tuple[str, ...]:
        """The items that an allowance of a config may be for as well."""
        return ()

    def compare(self, process: ModelProcess, artifact: Artifact, path: Path, item: str, fresh: bool) -> CheckResult:
        """What the model of one config comes to; ``fresh`` runs the text that is about to be written."""
        raise NotImplementedError


class BesideCheck(ModelCheck):
    """A check of what a config makes together with another file of its folder.

    ``function`` is the ``package.module:function`` of what does the check in the process that runs models, and
    ``factory`` a pattern for the name of the file's own function that it calls.
    """

    file: ClassVar[str]
    function: ClassVar[str]
    factory: ClassVar[str] = ""

    def items(self, path: Path) -> Iterator[str]:
        """One item, if the file is there."""
        if (path.parent / self.file).is_file():
            yield self.name

    def compare(self, process: ModelProcess, artifact: Artifact, path: Path, item: str, fresh: bool) -> CheckResult:
        """Have the check done; its problems lie at the file's function, where they say nothing else."""
        file = path.parent / self.file
        result = check_beside(process, self.function, artifact, file, fresh)
        return place_errors(result, find_function(file, self.factory))


def place_errors(result: CheckResult, home: Location) -> CheckResult:
    """A result whose errors lie at ``home`` where they say nothing else."""
    errors = (replace(error, location=error.location or home) for error in result.errors)
    return replace(result, errors=tuple(errors))


def find_function(file: Path, name: str) -> Location:
    """Where a file defines the first function whose name fits a pattern; the file where it defines none."""
    text = read_text(file) or ""
    definition = re.search(rf"^(?:async )?def (?:{name})\(", text, re.MULTILINE)
    return Location(str(file), text.count("\n", 0, definition.start()) + 1 if definition is not None else 0)


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
