"""What a check is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from patchgen_core.build.results import ConfigResult
from patchgen_core.checks.result import CheckResult, Status
from patchgen_core.checks.session import Session
from patchgen_core.config.input_recording import Input
from patchgen_core.project.project import Project


class Check:
    """One thing that the gate proves of a config. The base class of all checks, of other packages' as well.

    A subclass implements :meth:`run`, and :meth:`items` when there is not one item for each config file. Its first
    line of documentation is what reports say it means. ``name`` names its items, its mark ``patchgen_<name>`` and its
    column in reports. With ``on_device`` it runs on the device that is chosen; others run on the CPU. Without
    ``runs_code`` it reads the project's code and runs none of it. With ``runs_in_workers`` that code runs in processes
    of :mod:`patchgen_core.workers` alone, which note what they do. Without ``follows_configs`` it sees of config files
    that a config imports nothing but what that declares with them, and where. Without ``follows_functions`` it looks
    into no module that is imported only where a private function runs, or one that registers a model, outside of the
    config's folders. With ``runs_ahead`` its items may run in another process while this one does other things: they
    depend on nothing but what stands in files, and the class can be imported.
    """

    name: ClassVar[str]
    on_device: ClassVar[bool] = False
    runs_code: ClassVar[bool] = True
    runs_in_workers: ClassVar[bool] = False
    follows_configs: ClassVar[bool] = True
    follows_functions: ClassVar[bool] = True
    runs_ahead: ClassVar[bool] = False

    def __init__(self, session: Session) -> None:
        self.session = session

    def items(self, path: Path) -> Iterator[str]:
        """The names of the items for a config file: the check's, or ``name[variant]`` for each of several."""
        yield self.name

    def project_items(self, path: Path) -> Iterator[str]:
        """The names of the items that concern no single config of a project, listed under its ``pyproject.toml``."""
        yield from ()

    def inputs(self, path: Path) -> Iterable[Path] | None:
        """Files and folders that the results for a config file depend on, beside what the gate looks at for every
        check; None where that is not known, and then no result is kept for the next run.

        The gate looks at everything in the config's folder, at what that imports of the project, ``pyproject.toml``,
        what is installed, the environment and the machine. Only what a class says itself counts, and not what it
        inherits.
        """
        return None

    def take_asked(self, path: Path) -> frozenset[Input]:
        """What else the results depend on that :meth:`run` has just given for a config file, which only came up there:
        kinds and names, as :mod:`patchgen_core.checks.kept.states` has them."""
        return frozenset()

    def processors(self, item: str) -> int:
        """How many processors an item keeps busy at once."""
        return 1

    def device_types(self, path: Path, item: str) -> frozenset[str]:
        """The kinds of device that the kernels of an item are made for, such as ``cuda``; a run on a cluster then has
        it done where there is one."""
        return frozenset()

    def prepare(self, project: Project) -> None:
        """Start what takes long to start, while other checks run."""

    def refuse_machine(self, project: Project | None) -> None:
        """Raise a PatchgenError once, and not in every item, when the machine has not what the settings ask for."""

    def run(self, path: Path, item: str) -> Iterable[CheckResult]:
        """Do an item of a config file, or of a project's ``pyproject.toml``; a result for each config of the file.

        Raises:
            PatchgenError: it cannot be done; that is the item's result.
        """
        raise NotImplementedError

    def result(self, result: ConfigResult, status: Status, **more: Any) -> CheckResult:
        """The result for a config; ``more`` is what else it holds."""
        outcome = result.outcome
        return CheckResult(outcome.label, str(outcome.path), outcome.line, self.name, status, **more)

    def nothing_made(self, result: ConfigResult, reason: str) -> CheckResult:
        """The result for a config without a generated module: skipped where the drift check tells of it."""
        if self.session.is_drift_checked(result.outcome.path):
            return self.result(result, "skipped", reason=reason)
        errors = result.outcome.problems
        return (
            self.result(result, "error", errors=errors)
            if errors
            else self.result(result, "failed", causes=result.causes)
        )
