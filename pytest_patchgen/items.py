"""Config files as collectors, and their checks as items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from patchgen_core.build.results import Cause, ConfigResult
from patchgen_core.checks.drift.drift import find_orphans, fix_result, remove
from patchgen_core.checks.result import (
    BAD,
    NO_MODULE,
    CheckResult,
    Status,
    clean,
    contract_result,
    drift_result,
    pack,
    relative_to,
    unpack,
    with_paths,
)
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.project.project import load_project
from pytest_patchgen.failure import CheckFailed, make_failure

if TYPE_CHECKING:
    from pytest_patchgen.gate import Gate


GATE = pytest.StashKey["Gate"]()
UPSTREAM_MOVED = frozenset(["PG215"])
"""What the checked-in files tell of and freshly written ones do not."""


class CheckItem(pytest.Item):
    """One check of a config file. The base class of all checks, of other plugins' as well.

    A subclass sets :attr:`check` and implements :meth:`examine`.

    Attributes:
        check: name of the check.
        on_device: whether it runs on the device that is chosen; others run on the CPU.
        records: what the last run found out.
    """

    check: ClassVar[str]
    on_device: ClassVar[bool] = False
    records: tuple[CheckResult, ...] = ()
    _traceback: str = ""

    def __init__(self, name: str, parent: pytest.File, **more: Any) -> None:
        super().__init__(name, parent, **more)
        self.add_marker("patchgen")
        self.add_marker(f"patchgen_{self.check}")

    @classmethod
    def make(cls, parent: ConfigFile) -> Iterator[CheckItem]:
        """The items of this check for a config file: one that is called like the check, unless overridden."""
        yield cls.from_parent(parent, name=cls.check)

    def examine(self) -> Iterable[CheckResult]:
        """Do the check.

        Returns:
            A record for each config that the file makes. The item fails when the status of one is bad, and is
            skipped when all were.

        Raises:
            PatchgenError: it cannot be done; the item fails with that.
        """
        raise NotImplementedError

    @property
    def gate(self) -> Gate:
        """The session's gate: its settings, and what is known about its configs."""
        return self.config.stash[GATE]

    def results(self) -> list[ConfigResult]:
        """What the drift check says of the file's configs, and what each makes; generated once a session.

        Raises:
            PatchgenError: there is no project, or ruff cannot run.
        """
        try:
            return self.gate.verdicts.results(self.path, self.gate.chosen)
        except pytest.skip.Exception as error:
            raise PatchgenError(f"the config skips itself: {error}", Location(str(self.path))) from None

    def record(self, result: ConfigResult, status: Status, **more: Any) -> CheckResult:
        """The record of a verdict on one of :meth:`results`; ``more`` is what else it holds."""
        outcome = result.outcome
        return CheckResult(outcome.label, str(outcome.path), outcome.line, self.check, status, **more)

    def is_drift_checked(self) -> bool:
        """Whether the drift of the same file is going to be checked."""
        return DriftItem.check in self.gate.chosen[self.path]

    def is_fixed(self, result: ConfigResult) -> bool:
        """Whether a config's files are being rewritten in this run."""
        return self.gate.fix and self.is_drift_checked() and result.status == "drifted"

    def unmade(self, result: ConfigResult, reason: str) -> CheckResult:
        """The record for a config without a generated module: skipped where the drift check tells of it."""
        if self.is_drift_checked():
            return self.record(result, "skipped", reason=reason)
        errors = result.outcome.problems
        return (
            self.record(result, "error", errors=errors)
            if errors
            else self.record(result, "failed", causes=result.causes)
        )

    def runtest(self) -> None:
        """Do the check and fail, or be skipped, by what it finds."""
        try:
            found = tuple(self.examine())
        except PatchgenError as error:
            label = self.gate.label(self.path)
            found = (CheckResult(label, str(self.path), 0, self.check, "error", errors=error.problems),)
        self.records = tuple(unpack(pack(record)) for record in found)  # as other processes will see them
        if any(record.status in BAD for record in self.records):
            raise CheckFailed(self.records)
        if self.records and all(record.status == "skipped" for record in self.records):
            pytest.skip("; ".join(dict.fromkeys(record.reason for record in self.records)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The verdict; a traceback only for what is no verdict, or when it is asked for."""
        wanted = self.config.getoption("tbstyle", "auto")
        style = style or ("long" if wanted == "auto" else wanted)
        inside = excinfo.traceback.cut(path=__file__)
        excinfo.traceback = inside[1:] or inside
        if not isinstance(excinfo.value, CheckFailed):
            return super().repr_failure(excinfo, style)
        is_wanted = self.config.get_verbosity() >= 2 or wanted == "native"
        self._traceback = str(super().repr_failure(excinfo, style)) if is_wanted else ""
        return make_failure(self.config, self.records, self._traceback)

    def packed(self, excuse: str = "") -> dict[str, Any]:
        """What the check found out, as JSON types, for the process that reports it.

        Args:
            excuse: why it counts as skipped.
        """
        records = self.records
        if excuse:
            bare = CheckResult(self.gate.label(self.path), str(self.path), 0, self.check, "skipped", reason=excuse)
            records = tuple(
                record if record.status == "skipped" else replace(record, status="skipped", reason=excuse)
                for record in records or (bare,)
            )
        packed = [pack(with_paths(record, self.gate.at_home)) for record in records]
        return {"records": packed, "traceback": clean(self._traceback)}

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the item stands, and its name in headlines."""
        return self.path, 0, f"{self.path.stem}::{self.name}"


class ConfigFile(pytest.File):
    """A patch config."""

    def collect(self) -> Iterator[CheckItem]:
        """The checks of the config."""
        for check in self.config.stash[GATE].checks:
            yield from check.make(self)


class DriftItem(CheckItem):
    """Generated files are what their config makes."""

    check = "drift"

    def examine(self) -> Sequence[CheckResult]:
        """Compare with a fresh generation; with ``--patchgen-fix``, write what drifted."""
        results = self.results()
        return [self._fix(result) for result in results] if self.gate.fix else list(map(drift_result, results))

    def _fix(self, result: ConfigResult) -> CheckResult:
        """Rewrite what drifted; what moved under the patches is told here, because it cannot be told afterwards."""
        artifact = result.outcome.artifact
        warnings: tuple[Problem, ...] = ()
        if artifact is not None and self.is_fixed(result) and ContractItem.check in self.gate.chosen[self.path]:
            contracts = self.gate.verdicts.contracts(self.gate.verdicts.project(self.path))
            warnings = contracts.examine(artifact, self.path, UPSTREAM_MOVED).warnings
        return replace(drift_result(fix_result(result)), warnings=warnings)


class ImportItem(CheckItem):
    """The generated module imports, and exports what upstream exports."""

    check = "import"

    def examine(self) -> Sequence[CheckResult]:
        """Import what is checked in, or what ``--patchgen-fix`` puts there."""
        return [self._import(result) for result in self.results()]

    def _import(self, result: ConfigResult) -> CheckResult:
        artifact = result.outcome.artifact
        is_fixed = self.is_fixed(result)
        if artifact is None or (not is_fixed and not artifact.path.exists()):
            return self.unmade(result, "there is nothing to import: the drift check says why")
        project = self.gate.verdicts.project(self.path)
        verdict = self.gate.verdicts.importer(project).check(artifact, fresh=is_fixed)
        if verdict.missing:
            reason = f"optional package '{verdict.missing}' is not installed"
            return self.record(result, "skipped", reason=reason)
        problems = verdict.problems
        if result.status == "drifted" and not is_fixed:
            drifted = "The file has drifted: mend that first."
            problems = tuple(replace(p, hint=f"{p.hint} {drifted}".strip()) for p in problems)
        return self.record(result, "failed" if problems else "clean", errors=problems)


class ContractItem(CheckItem):
    """The generated module keeps what upstream and its other patches rely on."""

    check = "contract"

    def examine(self) -> Sequence[CheckResult]:
        """Run the contract rules over what the file's configs make."""
        return [self._contract(result) for result in self.results()]

    def _contract(self, result: ConfigResult) -> CheckResult:
        artifact = result.outcome.artifact
        if artifact is None:
            return self.unmade(result, NO_MODULE)
        contracts = self.gate.verdicts.contracts(self.gate.verdicts.project(self.path))
        codes = {rule.code for rule in contracts.rules}
        if self.gate.fix and self.is_drift_checked():
            codes -= UPSTREAM_MOVED
        return contract_result(result.outcome, contracts.examine(artifact, self.path, codes))


class ProjectFile(pytest.File):
    """The ``pyproject.toml`` of a project."""

    def collect(self) -> Iterator[CheckItem]:
        """What concerns no config of the project."""
        gate = self.config.stash[GATE]
        if DriftItem in gate.checks:
            yield OrphansItem.from_parent(self, name="orphans")
        if gate.runs("kernel"):
            from pytest_patchgen.model_items import KernelItem, uses_kernels

            project = gate.verdicts.project(self.path)
            if uses_kernels(project.find_configs(), bool(project.kernels)):
                yield from KernelItem.make_all(self, gate.verdicts.models(project))


class OrphansItem(CheckItem):
    """No generated file is there without a config that makes it."""

    check = "drift"

    def examine(self) -> Sequence[CheckResult]:
        """Look for orphans; with ``--patchgen-prune``, remove them."""
        project = load_project(self.path.parent)
        named = [path for path in self.gate.named if self.gate.verdicts.project(path) == project]
        paths = dict.fromkeys([*project.find_configs(), *named])
        orphans = find_orphans(project, self.gate.verdicts.outcomes(project, paths))
        status: Status = "failed" if orphans else "clean"
        if orphans and self.gate.prune:
            remove(orphans)
            status = "fixed"
        root = relative_to(project.base)
        causes = tuple(Cause("orphan", f"{root(str(path))}: no config makes it any more") for path in orphans)
        removed = tuple(map(str, orphans)) if status == "fixed" else ()
        return [CheckResult(self.path.name, str(self.path), 0, self.check, status, causes=causes, removed=removed)]
