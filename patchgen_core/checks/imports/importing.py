"""Does a generated module import, and does it export what upstream exports?

The import happens in a process of its own (:mod:`patchgen_core.checks.imports.forked_import`), so that nothing that
this one has imported can stand in for what the module lacks, and so that torch stays out of this one.
"""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from patchgen_core.build.results import Artifact, ConfigResult
from patchgen_core.checks.check import Check
from patchgen_core.checks.fork_server import IMPORT_MODULES, share_imports
from patchgen_core.checks.imports.forked_import import CAN_FORK, PREPARED, ImportReport, ImportRequest
from patchgen_core.checks.registry import BUILT_IN
from patchgen_core.checks.result import CheckResult, make_result, with_errors
from patchgen_core.codegen.plan import Plan
from patchgen_core.errors import PatchgenError, Problem, display_path, excerpt, install_hint
from patchgen_core.files import read_text
from patchgen_core.project.project import Project
from patchgen_core.syntax.exports import exported_names, has_listing
from patchgen_core.workers.process import warm_up
from patchgen_core.workers.worker import Worker, WorkerDied

_HANDLER = "patchgen_core.checks.imports.forked_import:import_in_fork"
_TIME_LIMIT = 600.0


class Importer:
    """Imports generated modules of a project, in a process that :meth:`close` ends.

    The project's import roots come first on the path. An import may take ``time_limit`` seconds. What does not import
    by itself is tried once more where the project's set-ups have run (``setups`` are more of them than its own), in
    another process.
    """

    def __init__(self, project: Project, time_limit: float = _TIME_LIMIT, setups: tuple[str, ...] = ()) -> None:
        self.project = project
        self.setups = tuple(filter(None, (project.setup, *setups)))
        self.worker, self._set_up_worker = (Worker(_HANDLER, time_limit, project.import_roots) for _ in range(2))

    @property
    def opened(self) -> set[str]:
        """The files that the processes have opened, less those of the children that import."""
        return self.worker.opened | self._set_up_worker.opened

    def close(self) -> None:
        """End the processes."""
        self.worker.close()
        self._set_up_worker.close()

    def check(self, artifact: Artifact, fresh: bool = False) -> CheckResult:
        """Import a config's module and compare what it exports with upstream; ``fresh`` imports the text that was
        generated now, whatever stands on disk. A PatchgenError where the module does not exist."""
        text = artifact.text if fresh else read_text(artifact.path)
        if text is None:
            raise PatchgenError(f"'{display_path(artifact.path)}' does not exist", artifact.plan.config.location)
        request = ImportRequest(
            module=self.project.module_name(artifact.path),
            path=str(artifact.path),
            text=text if fresh else None,
            names=tuple(_expected(artifact.plan)),
            preload=tuple(_preload(self.project, artifact.plan)),
        )
        report = self._import(self.worker, request)
        alone = report.error or report.died
        notes: tuple[str, ...] = ()
        if alone and self.setups and not self._lacks_optional(report):
            try:
                report = self._import(self._set_up_worker, replace(request, setups=self.setups))
            except PatchgenError as error:
                report = replace(
                    report, setup_failure=f"Its set-up should run first, but {error.problems[0].message}."
                )
            if not report.error and not report.died:
                names = " and ".join(map(repr, self.setups))
                notes = (f"imports only after the set-up {names} has run; without it: {alone}",)
        if self._lacks_optional(report):
            return make_result(skipped=f"optional package '{report.lacks}' is not installed")
        return make_result(_problems(artifact, text, report), notes=notes)

    def _lacks_optional(self, report: ImportReport) -> bool:
        return report.lacks.partition(".")[0] in self.project.optional_packages

    def _import(self, worker: Worker, request: ImportRequest) -> ImportReport:
        try:
            is_prepared = not request.setups and set(PREPARED) <= set(request.preload)
            report: ImportReport = worker.ask(request, IMPORT_MODULES if is_prepared else "")
            return report
        except WorkerDied as error:
            return ImportReport(died=error.how, output=error.output)
        except OSError as error:
            raise PatchgenError(f"no process for the import can be started: {error.strerror}") from None
        finally:
            if not CAN_FORK:
                worker.close()


def _preload(project: Project, plan: Plan) -> list[str]:
    """What is slow to import and comes in any case; none of the project's own, and nothing of the model's folder."""
    torch = ["torch"] if plan.index.imports.keys() & {"torch", "nn"} else []
    package = plan.upstream.module.rpartition(".")[0]
    top = package.partition(".")[0] or plan.upstream.module
    if top == project.package_prefix.partition(".")[0]:
        return torch
    statements = [statement for found in plan.index.imports.values() for statement, _ in found]
    shared = dict.fromkeys(_imported(statement, package) for statement in statements)
    family = f"{package.rpartition('.')[0]}."
    return [*torch, top, *(name for name in shared if name.startswith(f"{top}.") and not name.startswith(family))]


def _imported(statement: ast.stmt, package: str) -> str:
    """The module that ``from ... import`` in a module of a package names; empty for another statement."""
    if not isinstance(statement, ast.ImportFrom):
        return ""
    try:
        return importlib.util.resolve_name("." * statement.level + (statement.module or ""), package)
    except ImportError:  # more dots than packages
        return ""


def _expected(plan: Plan) -> list[str]:
    gone = {*plan.excluded, *plan.dropped}
    return [name for name in exported_names(plan.source.tree, plan.index) if name not in gone]


def _problems(artifact: Artifact, text: str, report: ImportReport) -> Iterator[Problem]:
    plan, name, location = artifact.plan, artifact.path.name, artifact.plan.config.location
    if report.died:
        message = f"{name} dies when it is imported: {report.died}"
        yield Problem(message, location, report.setup_failure, report.output)
    elif report.error:
        yield _import_problem(artifact, text, report)
    elif report.file is None or os.path.realpath(report.file) != os.path.realpath(artifact.path):
        message = f"its name imports another file: '{display_path(report.file or 'none')}'"
        yield Problem(message, location, "Is another copy of the project installed, or package_prefix wrong?")
    else:
        absent, exported = report.absent, report.exported
        for entry in absent:
            if entry in exported:
                yield Problem(f"__all__ of {name} names '{entry}', which it does not define", location)
            else:
                hint = f"If that is on purpose: config.exclude_from_output({entry!r})."
                yield Problem(f"upstream exports '{entry}', which {name} does not define", location, hint)
        if has_listing(plan.index):
            for entry in _expected(plan):
                if entry not in exported and entry not in absent:
                    yield Problem(f"upstream's __all__ has '{entry}', but {name}'s does not", location)


def _import_problem(artifact: Artifact, text: str, report: ImportReport) -> Problem:
    frames = report.frames
    location, name = artifact.plan.config.location, artifact.path.name
    own = [line for file, line in frames if os.path.realpath(file) == os.path.realpath(artifact.path)]
    where = f"{name}, line {own[-1]}" if own else name
    hint = ""
    if report.lacks and "." not in report.lacks:
        hint = install_hint(report.lacks)
    file, line = frames[-1] if frames else (str(artifact.path), 0)
    if os.path.realpath(file) != os.path.realpath(artifact.path):
        hint = f"Raised in {display_path(file)}, line {line}. {hint}".strip()
    hint = f"{hint} {report.setup_failure}".strip()
    line_excerpt = excerpt(text, own[-1]) if own else ""
    return Problem(f"{where} does not import: {report.error}", location, hint, line_excerpt)


_DRIFTED = "The file has drifted: fix that first."


class ImportCheck(Check):
    """The generated module imports, and exports what upstream exports."""

    name = "import"
    runs_in_workers = True
    follows_configs = False
    runs_ahead = True

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing more."""
        return ()

    def run(self, path: Path, item: str) -> Iterable[CheckResult]:
        """Import what is checked in, or what a run that rewrites files puts there."""
        return [self._import(result) for result in self.session.results(path)]

    def prepare(self, project: Project) -> None:
        """Have what upstream's models import be imported where some are going to run; alone, this may be about modules
        that import none of that."""
        names = set[str]().union(*self.session.chosen.values())
        if any("models" in info.needs and info.name in names for info in BUILT_IN):
            share_imports(self.session)
            warm_up(IMPORT_MODULES)

    def _importer(self, project: Project) -> Importer:
        def make() -> Importer:
            share_imports(self.session)
            return Importer(project, setups=self.session.settings.setups)

        return self.session.resource(project, Importer, make)

    def _import(self, result: ConfigResult) -> CheckResult:
        artifact = result.outcome.artifact
        is_fixed = self.session.is_fixed(result)
        if artifact is None or (not is_fixed and not artifact.path.exists()):
            return self.nothing_made(result, "there is nothing to import; the drift check says why")
        project = self.session.project(result.outcome.path)
        imported = self._importer(project).check(artifact, fresh=is_fixed)
        if result.status == "drifted" and not is_fixed:
            errors = (replace(error, hint=f"{error.hint} {_DRIFTED}".strip()) for error in imported.errors)
            imported = with_errors(imported, errors)
        return self.result(
            result, imported.status, reason=imported.reason, errors=imported.errors, notes=imported.notes
        )
