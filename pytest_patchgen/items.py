"""Config files as collectors, and their checks as items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from patchgen_core.build.results import ConfigResult
from patchgen_core.checks.check import Check
from patchgen_core.checks.kept.asking import list_items, run_check
from patchgen_core.checks.result import BAD, CheckResult, clean, pack, unpack, with_paths
from patchgen_core.checks.session import Session
from patchgen_core.checks.verdicts import judge_results
from patchgen_core.errors import Location, PatchgenError
from pytest_patchgen.failure import CheckFailed, make_failure


class CheckItem(pytest.Item):
    """One check of a config file. The base class of all items, of other plugins' as well.

    A subclass sets :attr:`check`, the name, and implements :meth:`examine`.

    Attributes:
        on_device: whether it runs on the device that is chosen; others run on the CPU.
        records: the results of the last run.
        seconds: how long it took, where it ran in another process ahead; 0 where it ran in this one.
    """

    check: str
    on_device: ClassVar[bool] = False
    records: tuple[CheckResult, ...] = ()
    seconds: float = 0.0
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
        """Do the check; a result for each config that the file makes.

        The item fails when the status of one is bad, and is skipped when all were.

        Raises:
            PatchgenError: it cannot be done; the item fails with that.
        """
        raise NotImplementedError

    @property
    def run_state(self) -> RunState:
        """What the items of the session share."""
        return self.config.stash[RUN_STATE]

    def results(self) -> list[ConfigResult]:
        """What the drift check says of the file's configs, and what each makes; generated once a session.

        Raises:
            PatchgenError: there is no project, or ruff cannot run.
        """
        try:
            return self.run_state.session.results(self.path)
        except pytest.skip.Exception as error:
            raise self._skipped_itself(error) from None

    def _skipped_itself(self, error: BaseException) -> PatchgenError:
        return PatchgenError(f"the config skips itself: {error}", Location(str(self.path)))

    def runtest(self) -> None:
        """Do the check and fail, or be skipped, by what it finds."""
        try:
            results = judge_results(self.examine(), self.name, self.run_state.session)
        except PatchgenError as error:
            label = self.run_state.session.label(self.path)
            results = (CheckResult(label, str(self.path), 0, self.check, "error", errors=error.problems),)
        self.records = tuple(unpack(pack(result)) for result in results)  # as other processes will see them
        self.seconds = next((result.seconds for result in self.records if not result.made), 0.0)
        if any(result.status in BAD for result in self.records):
            raise CheckFailed(self.records)
        if self.records and all(result.status == "skipped" for result in self.records):
            pytest.skip("; ".join(dict.fromkeys(result.reason for result in self.records)))

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
        """The results as JSON types, for the process that reports them; ``excuse`` is why one counts as skipped."""
        results = self.records
        if excuse:
            label = self.run_state.session.label(self.path)
            bare = CheckResult(label, str(self.path), 0, self.check, "skipped", reason=excuse)
            results = tuple(
                result if result.status == "skipped" else replace(result, status="skipped", reason=excuse)
                for result in results or (bare,)
            )
        packed = [pack(with_paths(result, self.run_state.at_home)) for result in results]
        return {"records": packed, "traceback": clean(self._traceback)}

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the item stands, and its name in headlines."""
        return self.path, 0, f"{self.path.stem}::{self.name}"


class GateItem(CheckItem):
    """An item of one of the gate's own checks."""

    def __init__(self, name: str, parent: pytest.File, gate_check: Check, **more: Any) -> None:
        self.gate_check, self.check = gate_check, gate_check.name
        super().__init__(name, parent, **more)

    def __repr__(self) -> str:
        return f"<{self.name.partition('[')[0].capitalize()}Item {self.name}>"

    def examine(self) -> Iterable[CheckResult]:
        """Have the gate's check run."""
        try:
            return run_check(self.run_state.session, self.gate_check, self.path, self.name)
        except pytest.skip.Exception as error:
            raise self._skipped_itself(error) from None


@dataclass(frozen=True)
class RunState:
    """What the items of a session share.

    ``at_home`` gives a path as it is for the session that started this one.
    """

    session: Session
    checks: tuple[Check | type[CheckItem], ...]
    at_home: Callable[[str], str]


RUN_STATE = pytest.StashKey[RunState]()


class ConfigFile(pytest.File):
    """A patch config."""

    def collect(self) -> Iterator[CheckItem]:
        """The checks of the config."""
        for check in self.config.stash[RUN_STATE].checks:
            if isinstance(check, Check):
                for name in list_items(self.config.stash[RUN_STATE].session, check, self.path):
                    yield GateItem.from_parent(self, name=name, gate_check=check)
            else:
                yield from check.make(self)


class ProjectFile(pytest.File):
    """The ``pyproject.toml`` of a project."""

    def collect(self) -> Iterator[CheckItem]:
        """What concerns no config of the project."""
        for check in self.config.stash[RUN_STATE].checks:
            if isinstance(check, Check):
                for name in list_items(self.config.stash[RUN_STATE].session, check, self.path):
                    yield GateItem.from_parent(self, name=name, gate_check=check)
