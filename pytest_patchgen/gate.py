"""The gate as part of a session: what is collected, and what its items share."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.errors import PatchgenError, closest
from patchgen_core.project import Project, declares_project, load_project
from pytest_patchgen import CONFIG_SUFFIX
from pytest_patchgen.failure import CheckFailed
from pytest_patchgen.items import CheckItem, ConfigFile, DriftItem, ImportItem, ProjectFile
from pytest_patchgen.verdicts import Verdicts

GATE = pytest.StashKey["Gate"]()
_PYPROJECT = "pyproject.toml"


def start(config: pytest.Config, is_on: bool) -> None:
    """Register the gate with a session.

    Args:
        config: the session's.
        is_on: whether the plugin was switched on; else only config files that are named are collected.

    Raises:
        pytest.UsageError: an option is wrong, or the project is.
    """
    from pytest_patchgen.reporter import Reporter

    try:
        gate = Gate(config, is_on)
        reporter = None if gate.is_worker else Reporter(config, gate)
    except PatchgenError as error:
        raise pytest.UsageError(f"patchgen: {error}") from None
    config.stash[GATE] = gate
    config.pluginmanager.register(gate, "patchgen_gate")
    if reporter is not None:
        config.pluginmanager.register(reporter, "patchgen_reporter")


class Gate:
    """The gate of one session.

    Attributes:
        checks: the chosen checks, in their order.
        fix: whether drifted files are to be rewritten.
        prune: whether orphans are to be removed.
        is_worker: whether this is a worker of pytest-xdist.
        project: the project that the session was started in; None when there is none.
        configs: all config files of that project when the run was given no paths, else none.
        collected: config files that were collected.
        verdicts: what is known about the configs.
    """

    def __init__(self, config: pytest.Config, is_on: bool) -> None:
        self.config, self.is_on = config, is_on
        self.is_worker = hasattr(config, "workerinput")
        self.fix: bool = config.option.patchgen_fix
        self.prune: bool = config.option.patchgen_prune
        self.is_whole = is_on and config.args_source is not pytest.Config.ArgsSource.ARGS
        self.checks = _checks(config)
        self.verdicts = Verdicts(by_folder=self.is_worker)
        self.collected: list[Path] = []
        found = config.hook.pytest_patchgen_configs(config=config)
        self.named = {Path(config.rootpath, path) for paths in found for path in paths}
        self.project = self._find_project()
        self.configs = self._find_configs()
        self._legacy = {path for path in self.configs if not path.name.endswith(CONFIG_SUFFIX)}
        if is_on:
            config.args = [*config.args, *self._more_arguments()]

    def _find_project(self) -> Project | None:
        problem = None
        for start in dict.fromkeys([self.config.invocation_params.dir, self.config.rootpath]):
            try:
                return load_project(start)
            except PatchgenError as error:
                if error.problems[0].location is not None:  # a table with something wrong in it
                    raise
                problem = problem or error
        if problem is not None and self.is_whole and not self.is_worker and not self.named:
            raise problem
        return None

    def _find_configs(self) -> tuple[Path, ...]:
        if self.project is None or not self.is_on:
            return ()
        if not self.is_whole and self.project.legacy_patches_prefix is None:
            return ()
        found = tuple(self.project.find_configs())
        if not found and not self.named and self.is_whole:
            raise PatchgenError(
                f"there is no patch config below '{self.project.search_root}'",
                None,
                f"A config is a file whose name ends in '{CONFIG_SUFFIX}'.",
            )
        return found

    def _more_arguments(self) -> Iterator[str]:
        """What is to be collected beside what the session collects anyway."""
        config = self.config
        folders = [Path(config.invocation_params.dir, argument) for argument in config.args if "::" not in argument]
        wanted: list[Path] = []
        if self.project is not None:
            root, pyproject = self.project.search_root, self.project.base / _PYPROJECT
            has_root = any(root.is_relative_to(folder) for folder in folders)
            if self.is_whole:
                wanted.append(root)
            if (self.is_whole or has_root) and any(check is DriftItem for check in self.checks):
                wanted.append(pyproject)
        if self.is_whole:
            wanted += sorted(self.named)
        for path in wanted:
            if not any(path.is_relative_to(folder) for folder in folders):
                folders.append(path)
                yield str(path)

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> Generator[None, Any, Any]:
        """Collect patch configs, and collect them as nothing else."""
        found = yield
        kind = self._kind(file_path, parent.session)
        if kind is None:
            return found
        while isinstance(parent, pytest.Package) and parent.parent is not None:
            parent = parent.parent  # setting a package up would import its __init__, and torch with it
        ours = kind.from_parent(parent, path=file_path)
        if kind is ConfigFile:
            self.collected.append(file_path)
        return [ours, *(node for node in found if type(node) is not pytest.Module)]

    def _kind(self, path: Path, session: pytest.Session) -> type[pytest.File] | None:
        if path.name.endswith(CONFIG_SUFFIX) or path in self.named or path in self._legacy:
            return ConfigFile if self.is_on or session.isinitpath(path) else None
        is_project = path.name == _PYPROJECT and self.is_on and DriftItem in self.checks
        return ProjectFile if is_project and declares_project(path) else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        """Send what a check found out along with its report."""
        report = yield
        if isinstance(item, CheckItem) and call.when == "call":
            report.patchgen = item.packed()
            if report.skipped:
                report.longrepr = (str(item.path), 1, str(call.excinfo.value) if call.excinfo else "")
            elif report.failed and call.excinfo and not isinstance(call.excinfo.value, CheckFailed):
                report.patchgen = None
        return report

    def pytest_sessionfinish(self) -> None:
        """Tell the controller what was collected, and end what was started."""
        if self.is_worker:
            output: dict[str, Any] = self.config.workeroutput  # type: ignore[attr-defined]
            root = self.config.rootpath
            output["patchgen_collected"] = [os.path.relpath(path, root) for path in self.collected]
        self.verdicts.close()


def _checks(config: pytest.Config) -> tuple[type[CheckItem], ...]:
    """The checks of this run.

    Raises:
        PatchgenError: a check that is chosen is unknown; names the nearest.
    """
    known: dict[str, type[CheckItem]] = {check.check: check for check in (DriftItem, ImportItem)}
    for more in reversed(config.hook.pytest_patchgen_checks(config=config)):
        for check in more:
            if check.check in known:
                raise PatchgenError(f"two checks are called '{check.check}'", None, "Rename the one of your plugin.")
            known[check.check] = check
            first = (check.__doc__ or "a check of a patch config").strip().splitlines()[0]
            config.addinivalue_line("markers", f"patchgen_{check.check}: {first}")
    chosen: Sequence[str] = config.getini("patchgen_checks") or tuple(known)
    if config.option.patchgen_checks is not None:
        chosen = [name.strip() for name in config.option.patchgen_checks.split(",") if name.strip()]
    for name in chosen:
        if name not in known:
            near = closest(name, known)
            hint = f"Did you mean '{near}'?" if near else f"There are: {', '.join(known)}."
            raise PatchgenError(f"there is no check '{name}'", None, hint)
    if not chosen:
        raise PatchgenError("no check is chosen", None, f"There are: {', '.join(known)}.")
    return tuple(check for name, check in known.items() if name in chosen)
