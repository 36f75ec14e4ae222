"""The gate as part of a session: what is collected, and what its items share."""

from __future__ import annotations

import fnmatch
import importlib
import os
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.checks.result import clean
from patchgen_core.errors import PatchgenError, closest, did_you_mean, display_path
from patchgen_core.project.project import Project, load_project, no_configs
from patchgen_core.project.pyproject import PYPROJECT, declares_project
from pytest_patchgen import CONFIG_SUFFIX
from pytest_patchgen.failure import CheckFailed
from pytest_patchgen.items import GATE, CheckItem, ConfigFile, DriftItem, ProjectFile
from pytest_patchgen.verdicts import Running, Verdicts

DEVICES = ("auto", "cpu", "cuda")
_BUILT_IN = {
    "drift": ("items", "DriftItem"),
    "import": ("items", "ImportItem"),
    "contract": ("items", "ContractItem"),
    "parity": ("parity_item", "ParityItem"),
    "converter": ("model_items", "ConverterItem"),
    "plan": ("model_items", "PlanItem"),
    "kernel": ("model_items", "KernelItem"),
}
"""The built-in checks in their order, with module and class: only those that are chosen are imported."""

_WITH_MODELS = {"parity", "converter", "plan"}
"""The checks that run models, for which torch and transformers are imported while others run."""


def start(config: pytest.Config, is_on: bool, is_asked: bool) -> None:
    """Register the gate with a session.

    Args:
        config: the session's.
        is_on: whether the plugin was switched on; else only config files that are named are collected.
        is_asked: whether this run asks for it, and not the ini file.

    Raises:
        pytest.UsageError: an option is wrong, or the project is.
    """
    from pytest_patchgen.reporter import Reporter

    try:
        gate = Gate(config, is_on, is_asked)
        reporter = None if gate.is_worker else Reporter(config, gate)
    except PatchgenError as error:
        raise pytest.UsageError(f"patchgen: {error}") from None
    config.stash[GATE] = gate
    config.add_cleanup(gate.verdicts.close)
    config.pluginmanager.register(gate, "patchgen_gate")
    if reporter is not None:
        config.pluginmanager.register(reporter, "patchgen_reporter")


class Gate:
    """The gate of one session.

    Attributes:
        checks: the chosen checks, in their order.
        fix: whether drifted files are to be rewritten.
        prune: whether orphans are to be removed.
        is_asked: whether this run asks for the gate, and not the ini file.
        is_worker: whether this is a worker of pytest-xdist.
        is_whole: whether the run was given no paths, so that all configs of the project belong to it.
        project: the project that the session was started in; None when there is none.
        named: config files that other plugins name.
        configs: all config files of a whole run.
        collected: config files that were collected.
        chosen: the config files of which checks are going to run, with the names of those.
        verdicts: what is known about the configs.
        running: how models and kernels are run.
        builders: references of builders of toy batches that plugins bring.
    """

    def __init__(self, config: pytest.Config, is_on: bool, is_asked: bool) -> None:
        self.config, self.is_on, self.is_asked = config, is_on, is_asked
        self.is_worker = hasattr(config, "workerinput")
        self.fix: bool = config.option.patchgen_fix
        self.prune: bool = config.option.patchgen_prune
        self.is_whole = is_on and not _given_paths(config)
        self.checks = _checks(config)
        option = "--patchgen-prune" if self.prune else "--patchgen-fix" if self.fix else ""
        if option and DriftItem not in self.checks:
            raise PatchgenError(f"{option} goes with the check 'drift', which does that")
        self.collected: list[Path] = []
        self.chosen: dict[Path, set[str]] = {}
        self.named = _named_configs(config)
        self.project = self._find_project()
        self.running = _running(config)
        config.option.patchgen_device = self.running.device  # for workers that have no ini file
        self.builders = self._find_builders()
        self.verdicts = Verdicts(
            self.project,
            self.is_worker,
            self.running,
            caching=not config.option.patchgen_no_cache,
            artifacts=self.checks != (DriftItem,),
        )
        if self.project is not None and self.runs("contract"):
            self.verdicts.contracts(self.project)  # settings that name no rule are told before anything runs
        self.configs = self._find_configs()
        self._legacy = {path for path in self.configs if not path.name.endswith(CONFIG_SUFFIX)}
        self._arguments = {self._argument(argument) for argument in config.args}
        self._copies = self._find_copies()
        if is_on:
            # Not documented, but the one way to have more collected; workers get the result as their arguments.
            config.args = [*config.args, *map(str, self._more_arguments())]

    def runs(self, name: str) -> bool:
        """Whether a check of this name is chosen."""
        return any(check.check == name for check in self.checks)

    def _find_builders(self) -> tuple[str, ...]:
        if not self.runs("parity"):
            return ()
        from pytest_patchgen.toys import toy_builders

        return toy_builders(self.config)

    def _find_project(self) -> Project | None:
        problem = None
        for start in dict.fromkeys([self.config.invocation_params.dir, self.config.rootpath]):
            try:
                return load_project(start)
            except PatchgenError as error:
                if error.problems[0].location is not None:  # a table with something wrong in it
                    raise
                problem = problem or error
        if problem is not None and self.is_whole and self.is_asked and not self.is_worker and not self.named:
            raise PatchgenError(
                problem.problems[0].message, None, f"{problem.problems[0].hint} Or name the folders to check."
            )
        return None

    def _find_configs(self) -> tuple[Path, ...]:
        if not self.is_on or not (self.is_whole or (self.project and self.project.legacy_patches_prefix)):
            return ()
        found = self.project.find_configs() if self.project is not None else []
        if self.project is not None and self.is_whole and not found and not self.named:
            raise no_configs(self.project)
        return tuple(dict.fromkeys([*found, *self.named]))

    def _argument(self, argument: str) -> Path:
        return Path(os.path.abspath(self.config.invocation_params.dir / argument.partition("::")[0]))

    def _more_arguments(self) -> Iterator[Path]:
        """What is to be collected beside what the session collects anyway."""
        folders = [self._argument(argument) for argument in self.config.args if "::" not in argument]
        wanted = [path for path in self.configs if self.is_whole and not self._is_ignored(path)]
        if self.project is not None and self._concern_project():
            root = self.project.search_root
            if self.is_whole or any(root.is_relative_to(folder) for folder in folders):
                wanted.append(self.project.base / PYPROJECT)
        return (path for path in wanted if not any(path.is_relative_to(folder) for folder in folders))

    def _is_ignored(self, path: Path) -> bool:
        """Whether ``--ignore`` or ``--ignore-glob`` names a path or a folder that it lies in."""
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

    def label(self, path: Path) -> str:
        """What reports call the config in a file that could not be asked for its name."""
        try:
            return self.verdicts.project(path).module_name(path)
        except PatchgenError:
            return path.stem

    def is_config(self, path: Path) -> bool:
        """Whether a file is a patch config, by its name or because it was named."""
        return path.name.endswith(CONFIG_SUFFIX) or path in self.named or path in self._legacy

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> Generator[None, Any, Any]:
        """Collect patch configs, and collect them as nothing else."""
        found = yield
        kind = self._kind(file_path)
        if kind is None:
            return found
        while isinstance(parent, pytest.Package) and parent.parent is not None:
            parent = parent.parent  # setting a package up would import its __init__, and torch with it
        ours = kind.from_parent(parent, path=file_path, nodeid=self._nodeid(file_path))
        if kind is ConfigFile:
            self.collected.append(file_path)
        return [ours, *(node for node in found if not isinstance(node, pytest.Module))]

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
        """Whether a chosen check has items that concern no single config."""
        return self.runs("drift") or self.runs("kernel")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note what is going to run: configs are checked in batches."""
        for item in session.items:
            if isinstance(item, CheckItem) and isinstance(item.parent, ConfigFile):
                self.chosen.setdefault(item.path, set()).add(item.check)
        is_here = not self.is_worker and not self.config.option.collectonly
        if is_here and any(isinstance(item, CheckItem) and item.on_device for item in session.items):
            self._refuse_device()
        checks = _WITH_MODELS & {item.check for item in session.items if isinstance(item, CheckItem)}
        if is_here and checks and self.project is not None:
            self.verdicts.models(self.project).prepare(checks)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Look for the device before workers of this machine are started."""
        if node.gateway.spec.popen and any(check.on_device for check in self.checks):
            self._refuse_device()

    def _refuse_device(self) -> None:
        """Tell once, and not in every item, that torch has not the device that is wanted.

        Raises:
            pytest.UsageError: it has not.
        """
        if self.running.device != "cuda" or self._has_device:
            return
        try:
            self.verdicts.models(self.project or Project(Path.cwd(), "nowhere", root=Path.cwd())).refuse_device()
        except PatchgenError as error:
            raise pytest.UsageError(f"patchgen: {error}") from None
        self._has_device = True

    _has_device = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        """Send what a check found out along with its report."""
        report = yield
        if not isinstance(item, CheckItem) or call.when == "teardown":
            return report
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
        self.verdicts.close()

    def pytest_sessionfinish(self) -> None:
        """Tell the controller what was collected."""
        if self.is_worker:
            output: dict[str, Any] = self.config.workeroutput  # type: ignore[attr-defined]
            output["patchgen_collected"] = [self.at_home(str(path)) for path in self.collected]


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


def _named_configs(config: pytest.Config) -> tuple[Path, ...]:
    """The configs that other plugins name.

    Raises:
        PatchgenError: one is no file.
    """
    found: list[Path] = []
    for paths in config.hook.pytest_patchgen_configs(config=config):
        if isinstance(paths, (str, os.PathLike)) or not isinstance(paths, Iterable):
            raise PatchgenError(f"pytest_patchgen_configs returned {paths!r}, which is no sequence of paths")
        for path in (Path(os.path.abspath(config.rootpath / path)) for path in paths):
            if not path.is_file():
                raise PatchgenError(f"pytest_patchgen_configs names '{display_path(path)}', which is no file")
            found.append(path)
    return tuple(sorted(set(found)))


def _running(config: pytest.Config) -> Running:
    """How models are run.

    Raises:
        PatchgenError: the device is unknown, or the time limit is none.
    """
    option = config.option
    device = option.patchgen_device
    if device is None:
        device = config.getini("patchgen_device") or DEVICES[0]
    if device not in DEVICES:
        hint = did_you_mean(device, DEVICES) or f"There are: {', '.join(DEVICES)}."
        raise PatchgenError(f"there is no device '{device}' to run models on", None, hint)
    if option.patchgen_time_limit is None:
        return Running(device, option.patchgen_isolate)
    try:
        seconds = float(option.patchgen_time_limit)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        message = f"--patchgen-time-limit takes a number of seconds, not '{option.patchgen_time_limit}'"
        raise PatchgenError(message)
    return Running(device, option.patchgen_isolate, seconds)


def _checks(config: pytest.Config) -> tuple[type[CheckItem], ...]:
    """The checks of this run.

    Raises:
        PatchgenError: a check that is chosen is unknown; names the nearest.
    """
    known: dict[str, type[CheckItem] | None] = dict.fromkeys(_BUILT_IN)
    for more in reversed(config.hook.pytest_patchgen_checks(config=config)):
        for check in more:
            if check.check in known:
                raise PatchgenError(f"two checks are called '{check.check}'", None, "Rename the one of your plugin.")
            known[check.check] = check
            first = (check.__doc__ or "a check of a patch config").strip().splitlines()[0]
            config.addinivalue_line("markers", f"patchgen_{check.check}: {first}")
    texts: Sequence[str] = config.getini("patchgen_checks") or tuple(known)
    if config.option.patchgen_checks is not None:
        texts = [config.option.patchgen_checks]
    chosen = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    for name in chosen:
        if name not in known:
            near = closest(name, known)
            hint = f"Did you mean '{near}'?" if near else f"There are: {', '.join(known)}."
            raise PatchgenError(f"there is no check '{name}'", None, hint)
    if not chosen:
        raise PatchgenError("no check is chosen", None, f"There are: {', '.join(known)}.")
    return tuple(check or _built_in(name) for name, check in known.items() if name in chosen)


def _built_in(name: str) -> type[CheckItem]:
    module, kind = _BUILT_IN[name]
    check: type[CheckItem] = getattr(importlib.import_module(f"pytest_patchgen.{module}"), kind)
    return check
