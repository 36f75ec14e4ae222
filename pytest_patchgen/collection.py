"""What a session collects: patch configs, and the projects that they belong to."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.checks.check import Check
from patchgen_core.checks.fork_server import begin_imports, share_imports
from patchgen_core.checks.gate import Gate
from patchgen_core.checks.kept.asking import ItemPlace, find_fresh, find_unlisted, is_everything_kept
from patchgen_core.checks.kept.entries import Past
from patchgen_core.checks.order import arrange, item_key, read_past
from patchgen_core.checks.registry import CheckInfo, all_checks, choose_names, first_line, two_checks
from patchgen_core.checks.result import clean
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import DRIFT, read_jobs, read_settings
from patchgen_core.checks.shards import Shard, choose_items, read_shard
from patchgen_core.checks.starting import start_checks
from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.project.project import CONFIG_SUFFIX, Project, no_configs
from patchgen_core.project.pyproject import PYPROJECT, declares_project
from patchgen_core.project.table import load_project
from patchgen_core.workers.addresses import check_cluster
from pytest_patchgen.failure import CheckFailed
from pytest_patchgen.hook_functions import model_setups, toy_builders
from pytest_patchgen.items import RUN_STATE, CheckItem, ConfigFile, GateItem, ProjectFile, RunState


class Collection:
    """The gate of one session of pytest.

    Attributes:
        checks: the chosen checks, in their order.
        is_on: whether the plugin was switched on; else only config files that are named are collected.
        is_asked: whether this run asks for the gate, and not the ini file.
        is_worker: whether this is a worker of pytest-xdist.
        is_whole: whether the run was given no paths, so that all configs of the project belong to it.
        project: the project that the session was started in; None when there is none.
        configs: all config files of a whole run.
        collected: config files that were collected.
        shard: the part of the checks that is asked for; None for all.
        places: where each check stands in the report, by node id, if they run in another order.
    """

    def __init__(self, config: pytest.Config, is_on: bool, is_asked: bool) -> None:
        self.config, self.is_on, self.is_asked = config, is_on, is_asked
        self.is_worker = hasattr(config, "workerinput")
        self.is_whole = is_on and not _given_paths(config)
        chosen = _choose_checks(config)
        self._needs_torch = any(isinstance(check, CheckInfo) and check.needs for check in chosen)
        self.names = tuple(check.name if isinstance(check, CheckInfo) else check.check for check in chosen)
        settings = read_settings(config.option, "patchgen-", self.names, config.getini("patchgen_device"))
        batches = toy_builders(config) if "parity" in self.names else ()
        self.settings = replace(settings, toy_batches=batches, setups=model_setups(config))
        self.shard, self._seconds = _read_shard(config)
        self._jobs = read_jobs("--patchgen-jobs", config.option.patchgen_jobs)
        self._cluster = check_cluster("--patchgen-on", config.option.patchgen_on)
        if self._cluster and (self.is_worker or getattr(config.option, "numprocesses", None)):
            raise PatchgenError("--patchgen-on and workers of pytest-xdist both share out checks: leave one out")
        self.collected: list[Path] = []
        self.places: dict[str, int] = {}
        self._named = _named_configs(config)
        self.project = self._find_project()
        config.option.patchgen_device = self.settings.device  # for workers that have no ini file
        self.session = Session(
            self.project,
            self.settings,
            by_folder=self.is_worker,
            artifacts=self.names != (DRIFT,),
            named=self._named,
        )
        gate_checks = Gate(self.session, [check for check in chosen if isinstance(check, CheckInfo)]).checks
        added = [check for check in chosen if not isinstance(check, CheckInfo)]
        self.checks: tuple[Check | type[CheckItem], ...] = (*gate_checks, *added)
        self.configs = self._find_configs()
        self._legacy = {path for path in self.configs if not path.name.endswith(CONFIG_SUFFIX)}
        self._arguments = {self._argument(argument) for argument in config.args}
        self._copies = self._find_copies()
        config.stash[RUN_STATE] = RunState(self.session, self.checks, self.at_home)
        if is_on:
            # Not documented, but the one way to have more collected; workers get the result as their arguments.
            config.args = [*config.args, *map(str, self._more_arguments())]

    def _find_project(self) -> Project | None:
        problem = None
        for start in dict.fromkeys([self.config.invocation_params.dir, self.config.rootpath]):
            try:
                return load_project(start)
            except PatchgenError as error:
                if error.problems[0].location is not None:  # a table with something wrong in it
                    raise
                problem = problem or error
        if problem is not None and self.is_whole and self.is_asked and not self.is_worker and not self._named:
            raise PatchgenError(
                problem.problems[0].message, None, f"{problem.problems[0].hint} Or name the folders to check."
            )
        return None

    def _find_configs(self) -> tuple[Path, ...]:
        if not self.is_on or not (self.is_whole or (self.project and self.project.legacy_patches_prefix)):
            return ()
        configs = self.project.find_configs() if self.project is not None else []
        if self.project is not None and self.is_whole and not configs and not self._named:
            raise no_configs(self.project)
        return tuple(dict.fromkeys([*configs, *self._named]))

    def _argument(self, argument: str) -> Path:
        return Path(os.path.abspath(self.config.invocation_params.dir / argument.partition("::")[0]))

    def _more_arguments(self) -> Iterator[Path]:
        folders = [self._argument(argument) for argument in self.config.args if "::" not in argument]
        wanted = [path for path in self.configs if self.is_whole and not self._is_ignored(path)]
        if self.project is not None and self._concern_project():
            root = self.project.search_root
            if self.is_whole or any(root.is_relative_to(folder) for folder in folders):
                wanted.append(self.project.base / PYPROJECT)
        return (path for path in wanted if not any(path.is_relative_to(folder) for folder in folders))

    def _is_ignored(self, path: Path) -> bool:
        option, base = self.config.option, self.config.invocation_params.dir
        names = {os.path.abspath(base / name) for name in option.ignore or ()}
        globs = [os.path.abspath(base / glob) for glob in option.ignore_glob or ()]
        places = list(map(str, (path, *path.parents)))
        return not names.isdisjoint(places) or any(fnmatch.fnmatch(p, glob) for p in places for glob in globs)

    def _find_copies(self) -> dict[Path, Path]:
        """Folders that a remote worker has a copy of, and where the session that started it has them."""
        roots: list[str] = getattr(self.config, "workerinput", {}).get("patchgen", {}).get("roots", [])
        return {Path.cwd() / Path(root).name: Path(root) for root in roots}

    def at_home(self, path: str) -> str:
        """A path as it is for the session that started this one, if this is a remote worker's."""
        for here, there in self._copies.items():
            if Path(path).is_relative_to(here):
                return str(there / Path(path).relative_to(here))
        return path

    def is_config(self, path: Path) -> bool:
        """Whether a file is a patch config, by its name or because it was named."""
        return path.name.endswith(CONFIG_SUFFIX) or path in self._named or path in self._legacy

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Have what takes long to import begin to be imported where something has changed."""
        if self._is_ahead and self.configs and not self.config.option.collectonly:
            own = [check for check in self.checks if isinstance(check, Check)]
            begin_imports(self.session, find_unlisted(self.session, own, self.configs))

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> Generator[None, Any, Any]:
        """Collect patch configs, and collect them as nothing else."""
        nodes = yield
        kind = self._kind(file_path)
        if kind is None:
            return nodes
        while isinstance(parent, pytest.Package) and parent.parent is not None:
            parent = parent.parent  # setting a package up would import its __init__, and torch with it
        ours = kind.from_parent(parent, path=file_path, nodeid=self._nodeid(file_path))
        if kind is ConfigFile:
            self.collected.append(file_path)
        return [ours, *(node for node in nodes if not isinstance(node, pytest.Module))]

    def _nodeid(self, path: Path) -> str | None:
        """The node id of a file outside the rootdir, for which pytest has none of its own."""
        root = self.config.rootpath
        if path.is_relative_to(root):
            return None
        is_near = path.drive == root.drive
        return Path(os.path.relpath(path, root)).as_posix() if is_near else path.as_posix()

    def _kind(self, path: Path) -> type[pytest.File] | None:
        if self.is_config(path):
            return ConfigFile if self.is_on or path in self._arguments else None
        is_project = path.name == PYPROJECT and self.is_on and self._concern_project()
        return ProjectFile if is_project and declares_project(path) else None

    def _concern_project(self) -> bool:
        return any(isinstance(c, Check) and type(c).project_items is not Check.project_items for c in self.checks)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave checks that are not of the part that is asked for to other jobs; what was red runs first, and then
        what is cheap. Tests are in every part, and stay where they are."""
        if self.shard is not None:
            self._leave_other_parts(config, items, self.shard)
        checks = [item for item in items if isinstance(item, CheckItem)]
        if self.past:
            self.places = {item.nodeid: place for place, item in enumerate(checks)}
            keyed = [(item_key(self.session, item.path, item.name), item) for item in checks]
            ordered = iter(arrange(keyed, self.past))
            items[:] = [next(ordered) if isinstance(item, CheckItem) else item for item in items]

    @cached_property
    def past(self) -> dict[str, Past]:
        """What became of items when they ran last; a worker gets what the process that started it knows."""
        if self.is_worker:
            controller = getattr(self.config, "workerinput", {}).get("patchgen", {})
            return {key: Past(*past) for key, past in controller.get("past", {}).items()}
        return read_past(self.session)

    def in_order(self, nodeids: Iterable[str]) -> list[str]:
        """Node ids in the order of reports."""
        return sorted(nodeids, key=lambda nodeid: self.places.get(nodeid, len(self.places)))

    def _leave_other_parts(self, config: pytest.Config, items: list[pytest.Item], shard: Shard) -> None:
        checks = [item.nodeid for item in items if isinstance(item, CheckItem)]
        others = set(checks) - choose_items(checks, shard, self._seconds)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in others])
        items[:] = [item for item in items if item.nodeid not in others]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note what is going to run: configs are made together, and what is slow to start is started."""
        items = [item for item in session.items if isinstance(item, CheckItem)]
        if self.config.option.collectonly:
            return
        fresh, names = self._find_fresh(items)
        if self.is_worker:
            return
        self._refuse_machine(names)
        try:
            start_checks(self.session, fresh, self._jobs, self._cluster)
        except PatchgenError as error:
            raise pytest.UsageError(f"patchgen: {error}") from None

    def _find_fresh(self, items: Sequence[CheckItem]) -> tuple[list[tuple[Check, Path, str]], set[str]]:
        """What of the gate's own checks has to run, and the names of all checks of which something has; the session
        gets to know of which configs."""
        own = [(item.gate_check, item.path, item.name) for item in items if isinstance(item, GateItem)]
        fresh = find_fresh(self.session, own, self._begin_imports)
        others = [item for item in items if not isinstance(item, GateItem)]
        for item in others:
            if isinstance(item.parent, ConfigFile):
                self.session.chosen.setdefault(item.path, set()).add(item.check)
        return fresh, {check.name for check, _, _ in fresh} | {item.check for item in others}

    def _begin_imports(self, items: list[ItemPlace]) -> None:
        if self._is_ahead:
            begin_imports(self.session, (check for check, _, _ in items))

    @property
    def _is_ahead(self) -> bool:
        """Whether checks may run in other processes of this machine."""
        return self._jobs != 1 and not self._cluster and not self.is_worker

    def _gate_checks(self, names: Iterable[str]) -> Iterator[Check]:
        return (check for check in self.checks if isinstance(check, Check) and check.name in names)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Look for the device before workers of this machine are started."""
        if node.gateway.spec.popen and not self._is_kept:
            self._refuse_machine(self.names)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, specs: Sequence[Any]) -> None:
        """Have one process import torch for the workers of this machine, where several may check models."""
        if sum(bool(spec.popen) for spec in specs) > 1 and self._needs_torch and not self._is_kept:
            share_imports(self.session)

    @cached_property
    def _is_kept(self) -> bool:
        """Whether workers that run all configs have nothing to run."""
        checks = [check for check in self.checks if isinstance(check, Check)]
        if not self.is_whole or self.project is None or len(checks) < len(self.checks):
            return False
        return is_everything_kept(self.session, checks, (*self.configs, self.project.base / PYPROJECT))

    def _refuse_machine(self, names: Iterable[str]) -> None:
        """Raise a UsageError once, and not in every item, where this machine has not what is asked for."""
        if self._is_machine_known:
            return
        try:
            for check in self._gate_checks(names):
                if not (self._cluster and check.runs_ahead):
                    check.refuse_machine(self.project)
        except PatchgenError as error:
            raise pytest.UsageError(f"patchgen: {error}") from None
        self._is_machine_known = True

    _is_machine_known = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        """Send what a check found out along with its report."""
        report = yield
        if not isinstance(item, CheckItem) or call.when == "teardown":
            return report
        if call.when == "call" and item.seconds:
            report.duration = item.seconds
        error = call.excinfo.value if call.excinfo else None
        if call.when == "setup":
            if report.skipped:
                report.patchgen = item.packed(str(error))
            return report
        if not report.failed or isinstance(error, CheckFailed):
            report.patchgen = item.packed(_excuse(report, error))
        if report.skipped and not hasattr(report, "wasxfail"):
            report.longrepr = (str(item.path), 1, clean(str(error)))
        elif report.failed and self.is_worker and isinstance(error, CheckFailed):
            report.longrepr = str(error)  # the process that gets it makes the rest from the records
        return report

    def pytest_unconfigure(self) -> None:
        """Forget the configs before pytest looks for cycles in what there is."""
        self.session.close()

    def pytest_sessionfinish(self) -> None:
        """Tell the controller what was collected."""
        if self.is_worker:
            output: dict[str, Any] = self.config.workeroutput  # type: ignore[attr-defined]
            output["patchgen_collected"] = [self.at_home(str(path)) for path in self.collected]
            output["patchgen_places"] = self.places


def _excuse(report: pytest.TestReport, error: BaseException | None) -> str:
    """Why a check that did not pass did not fail either."""
    if not report.skipped:
        return ""
    return f"expected to fail: {report.wasxfail}" if hasattr(report, "wasxfail") else str(error)


def _given_paths(config: pytest.Config) -> list[str]:
    """The path arguments of the command line, without those of the ini file's ``addopts``."""
    given = [str(argument) for argument in config.invocation_params.args]
    in_files = any(argument.startswith("@") for argument in given)  # files of arguments
    return [path for path in config.option.file_or_dir if in_files or path in given]


def _read_shard(config: pytest.Config) -> tuple[Shard | None, dict[str, float]]:
    """The part of the checks that is asked for, None for all, and the durations to divide by."""
    text, report = config.option.patchgen_shard, config.option.patchgen_shard_by
    if text is None:
        if report is not None:
            raise PatchgenError("--patchgen-shard-by divides what --patchgen-shard says, which is not there")
        return None, {}
    shard = read_shard("--patchgen-shard", text)
    if report is None:
        return shard, {}
    from patchgen_core.report.gate.json import read_seconds

    return shard, read_seconds(config.invocation_params.dir / report, config.rootpath)


def _named_configs(config: pytest.Config) -> tuple[Path, ...]:
    """The configs that other plugins name; a PatchgenError where one is no file."""
    named: list[Path] = []
    for paths in config.hook.pytest_patchgen_configs(config=config):
        if isinstance(paths, (str, os.PathLike)) or not isinstance(paths, Iterable):
            raise PatchgenError(f"pytest_patchgen_configs returned {paths!r}, which is not a sequence of paths")
        for path in (Path(os.path.abspath(config.rootpath / path)) for path in paths):
            if not path.is_file():
                raise PatchgenError(f"pytest_patchgen_configs names '{display_path(path)}', which is not a file")
            named.append(path)
    return tuple(sorted(set(named)))


def _choose_checks(config: pytest.Config) -> tuple[CheckInfo | type[CheckItem], ...]:
    """The checks of this run; a PatchgenError that names the nearest where a chosen one is unknown."""
    checks: dict[str, CheckInfo | type[CheckItem]] = {info.name: info for info in all_checks()}
    for added in reversed(config.hook.pytest_patchgen_checks(config=config)):
        for check in added:
            if check.check in checks:
                raise two_checks(check.check)
            checks[check.check] = check
    lines = config.getini("markers")
    for name, check in checks.items():
        meaning = check.meaning if isinstance(check, CheckInfo) else first_line(check)
        if (line := f"patchgen_{name}: {meaning}") not in lines:
            config.addinivalue_line("markers", line)
    texts: Sequence[str] = config.getini("patchgen_checks") or tuple(checks)
    if config.option.patchgen_checks is not None:
        texts = [config.option.patchgen_checks]
    return tuple(checks[name] for name in choose_names(checks, texts))
