"""What a session says about the gate: in the terminal, in files, to GitHub. Lives where the terminal is."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from patchgen_core.checks.baseline_use import BaselineUse, close_baselines
from patchgen_core.checks.order import keep_past
from patchgen_core.checks.result import CheckResult, pack, retitled, unpack
from patchgen_core.checks.settings import DRIFT
from patchgen_core.errors import PatchgenError, Problem, display_path
from patchgen_core.project.project import CONFIG_SUFFIX
from patchgen_core.report.gate.baseline import baseline_lines
from patchgen_core.report.gate.github import find_workspace, is_github, workflow_commands, write_step_summary
from patchgen_core.report.gate.report import GateReport, with_unused
from patchgen_core.report.gate.terminal import (
    Commands,
    Line,
    change_lines,
    file_lines,
    gate_lines,
    mending_lines,
    print_closing,
    summary_line,
    warnings_of,
)
from patchgen_core.report.words import completed_line
from pytest_patchgen.collection import Collection
from pytest_patchgen.failure import FailureRepr, console_for, make_failure, write_console, write_lines
from pytest_patchgen.items import CheckItem

if TYPE_CHECKING:
    from _pytest._io import TerminalWriter

_ORPHANS = "orphans"
_CHOOSING = ("--patchgen-checks", "--patchgen-device")
"""Options that choose what runs, beside pytest's own."""


class Reporter:
    """Collects what the items of a session found out, from all its workers, and reports it."""

    def __init__(self, config: pytest.Config, gate: Collection) -> None:
        self.config, self.gate = config, gate
        self.path = _report_path(config)
        self.records: dict[str, list[CheckResult]] = {}
        self.selected: dict[str, None] = {}
        self.collected: set[Path] | None = None
        self.problems: tuple[Problem, ...] = ()
        self.pictures: list[str] = []
        self.no_picture = ""
        self.baselines: list[BaselineUse] = []
        self.completed: tuple[Path, ...] = ()

    # --- what comes in ---

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note what is going to run; a controller of pytest-xdist collects nothing."""
        if not self.config.pluginmanager.hasplugin("dsession"):
            self.collected = set(self.gate.collected)
            self.selected.update((item.nodeid, None) for item in session.items if isinstance(item, CheckItem))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Iterable[str]) -> None:
        """Note what is going to run in workers."""
        self.selected.update((nodeid, None) for nodeid in ids if self._is_check(nodeid))

    def _is_check(self, nodeid: str) -> bool:
        path, name = self._split(nodeid)
        if path.name == "pyproject.toml":
            return name == _ORPHANS
        return name.partition("[")[0] in self.gate.names and self.gate.is_config(path)

    def _split(self, nodeid: str) -> tuple[Path, str]:
        """The file and the name of an item; pytest-xdist may have added the name of a group."""
        path, _, name = nodeid.rpartition("::")
        return Path(os.path.abspath(self.config.rootpath / path)), name.partition("@")[0]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker what it may have no settings of, and where its files come from; refuse to mend copies."""
        gate = self.gate
        checks = ",".join(gate.names)
        past = {key: (past.seconds, past.is_red) for key, past in gate.past.items()}
        node.workerinput["patchgen"] = {
            "checks": checks,
            "is_on": gate.is_on,
            "is_asked": gate.is_asked,
            "past": past,
        }
        spec = node.gateway.spec
        if spec.popen and not spec.chdir:
            return
        option = "--patchgen-fix" if self.gate.settings.fix else "--patchgen-prune" if self.gate.settings.prune else ""
        if option:
            message = f"patchgen: worker '{spec}' has a copy of the files, and {option} would fix only that copy; "
            raise pytest.UsageError(f"{message}run it without --tx")
        node.workerinput["patchgen"]["roots"] = [str(root) for root in node.nodemanager.roots]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take over what a worker collected."""
        output = getattr(node, "workeroutput", {})
        if "patchgen_collected" in output:
            self.collected = (self.collected or set()).union(map(Path, output["patchgen_collected"]))
            self.gate.places = self.gate.places or output["patchgen_places"]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in a report; one of a worker is shown as one of this process."""
        data = getattr(report, "patchgen", None)
        if data is not None:
            records = [retitled(unpack(record)) for record in data["records"]]
            records = [
                replace(record, item=report.nodeid, seconds=record.seconds if record.made else report.duration)
                for record in records
            ]
            if report.failed and isinstance(report.longrepr, str):
                report.longrepr = make_failure(self.config, records, data["traceback"])  # type: ignore[assignment]
            if isinstance(report.longrepr, FailureRepr):
                report.longrepr.earlier = tuple(record for known in self.records.values() for record in known)
            self.records[report.nodeid] = records
        elif report.failed and (report.nodeid in self.selected or self._is_check(report.nodeid)):
            self.records[report.nodeid] = [self._crash(report)]

    def _crash(self, report: pytest.TestReport) -> CheckResult:
        """The record of a check that raised something else, timed out, or took its worker with it."""
        file, check = self._split(report.nodeid)
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = crash.message if crash else (str(report.longrepr).strip().splitlines() or ["no reason was given"])[-1]
        problem = Problem(f"the check did not finish: {reason}")
        label = file.name if check == _ORPHANS else self.gate.session.label(file)
        check = "drift" if check == _ORPHANS else check
        result = CheckResult(label, str(file), 0, check, "error", errors=(problem,), item=report.nodeid)
        return unpack(pack(result))

    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        """A check that mended something passes, and says so with ``-v``."""
        data = getattr(report, "patchgen", None)
        if data and report.passed and any(record["status"] == "fixed" for record in data["records"]):
            return "passed", ".", ("FIXED", {"yellow": True})
        return None

    # --- what goes out ---

    def report(self) -> GateReport:
        """What is known now."""
        ordered = self.gate.in_order(dict.fromkeys([*self.selected, *self.records]))
        records = tuple(record for nodeid in ordered for record in self.records.get(nodeid, ()))
        not_run = tuple(nodeid for nodeid in ordered if nodeid not in self.records)
        left_out = tuple(map(str, self._left_out()))
        is_short = bool(left_out) and not self._is_left_out_on_purpose()
        return with_unused(GateReport(records, not_run, left_out, is_short))

    def _left_out(self) -> list[Path]:
        """Configs that belong to the run and were not collected, as far as that is known."""
        if not self.gate.is_whole or self.collected is None:
            return []
        return [path for path in self.gate.configs if path not in self.collected]

    def _is_left_out_on_purpose(self) -> bool:
        return bool(self.config.getoption("ignore") or self.config.getoption("ignore_glob"))

    def pytest_report_header(self) -> list[str]:
        """Say what is gated."""
        gate = self.gate
        checks = ", ".join(gate.names)
        where = ""
        if gate.is_whole and gate.project is not None:
            count = f"{len(gate.configs)} config{'s' * (len(gate.configs) != 1)}"
            where = f"{count} below {display_path(gate.project.search_root)}, "
        mode = " (fixing)" * gate.settings.fix
        return [f"patchgen: {where}checks: {checks}{mode}"]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the files; a run that left a config out is red, unless it was told to ignore something."""
        if not self.config.option.collectonly:
            try:
                report = self.report()
                keep_past(self.gate.session, report.results)
                self.baselines = close_baselines(self.gate.session, report.results, False, self.gate.settings.fix)
                self.completed = self._complete() if self.gate.settings.fix else ()
                self._write(report)
            except PatchgenError as error:
                self.problems = error.problems
        if self.gate.shard is not None and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK  # there are more parts than checks
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            self.problems += self._unheard()
            if self.problems or (self._left_out() and not self._is_left_out_on_purpose()):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _unheard(self) -> tuple[Problem, ...]:
        """What is wrong when workers ran and none had a gate."""
        is_spread = self.config.pluginmanager.hasplugin("dsession") and not self.config.option.collectonly
        if not self.gate.is_whole or self.collected is not None or not is_spread:
            return ()
        return (Problem("no worker said which patch configs it collected", None, "Is the plugin installed there?"),)

    def _write(self, report: GateReport) -> None:
        if self.path is not None:
            from patchgen_core.report.gate.formats import with_pictures, write_report

            report, self.no_picture = with_pictures(report, self.path)
            self.pictures = [record.picture for record in report.results if record.picture]
            write_report(report, self.path, self.config.rootpath)
        if is_github(os.environ) and self.records:
            write_step_summary(report, os.environ)

    def _print(self, tw: TerminalWriter, report: GateReport) -> None:
        verbosity = self.config.get_verbosity()
        has_table = bool(report.results) and verbosity >= 0
        has_notes = verbosity > 0 and any(record.notes or record.made for record in report.results)
        lines = list(self._lines(report))
        if not (tw.hasmarkup or warnings_of(report) or has_notes or self.problems):
            table = gate_lines(report, verbosity > 0) if has_table else []
            write_lines([*table, *("".join(text for text, _ in line) for line in lines)], tw)
            return
        console = console_for(tw)
        print_closing(console, report, lines, table=has_table, verbose=verbosity > 0, problems=self.problems)
        write_console(console, tw)

    def _complete(self) -> tuple[Path, ...]:
        """Write the imports that configs lack under ``if TYPE_CHECKING:``."""
        from patchgen_core.authoring.type_imports.complete import mend_type_imports

        drifts = (path for path, name in map(self._split, self.records) if name == DRIFT)
        return mend_type_imports(drifts, self.gate.session.project)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The section of the gate."""
        report = self.report()
        is_idle = self.collected is None and not report.results and not self.selected  # such as --cache-show
        is_silent = is_idle or not (report.results or self.selected or report.not_collected or self.gate.is_asked)
        is_silent = is_silent and not self.problems
        if is_silent or (self.config.option.collectonly and not report.not_collected):
            return
        terminalreporter.section("patchgen", bold=True)
        self._print(self.config.get_terminal_writer(), report)
        if is_github(os.environ):
            for command in workflow_commands(report, find_workspace(os.environ, self.config.rootpath)):
                terminalreporter.write_line(command)
        for line in baseline_lines(self.baselines, self._command("--patchgen-fix")):
            terminalreporter.write_line("".join(text for text, _ in line))

    def _lines(self, report: GateReport) -> Iterator[Line]:
        yield from change_lines(report)
        if report.results or report.not_run:
            yield summary_line(report)
        elif not self.config.option.collectonly:
            yield ((self._nothing(), "yellow"),)
        for completed in self.completed:
            yield ((completed_line(completed), ""),)
        for path in report.not_collected:
            style = "yellow" if self._is_left_out_on_purpose() else "bold red"
            hint = "does --ignore, norecursedirs or a collect_ignore name it?"
            yield ((f"not collected: {display_path(path)} ({hint})", style),)
        yield from file_lines(None if self.problems else self.path, self.pictures, self.no_picture)
        commands = Commands(self._command("--patchgen-fix"), self._command("--patchgen-prune"))
        yield from mending_lines(report, commands)
        if self.gate.settings.prune and not any(self._split(nodeid)[1] == _ORPHANS for nodeid in self.selected):
            yield (("Orphans were not checked: that needs a run over all of search_root.", "yellow"),)

    def _nothing(self) -> str:
        if self.gate.is_whole or any(CONFIG_SUFFIX in argument for argument in self.config.args):
            return "No check of a patch config was selected."
        return f"There is no patch config in {', '.join(self.config.args)}: its name ends in '{CONFIG_SUFFIX}'."

    def _command(self, option: str) -> str:
        """The same run with one more option."""
        typed = [str(word).partition("=")[0] for word in self.config.invocation_params.args]
        chosen = (f"{name}={self.config.getoption(name)}" for name in _CHOOSING if name in typed)
        words = (["-k", self.config.option.keyword], ["-m", self.config.option.markexpr])
        marks = (word for pair in words if pair[1] for word in pair)
        return shlex.join(["pytest", option, *chosen, *marks, *self.config.option.file_or_dir])


def _report_path(config: pytest.Config) -> Path | None:
    value = config.option.patchgen_report
    if value is None:
        return None
    from patchgen_core.report.gate.formats import check_report_name

    path = Path(config.invocation_params.dir, value)
    check_report_name(path)
    return path


def start(config: pytest.Config, is_on: bool, is_asked: bool) -> None:
    """Register what collects and what reports; ``is_on`` and ``is_asked`` are those of :class:`Collection`.

    Raises:
        pytest.UsageError: an option is wrong, or the project is.
    """
    try:
        collection = Collection(config, is_on, is_asked)
        reporter = None if collection.is_worker else Reporter(config, collection)
    except PatchgenError as error:
        raise pytest.UsageError(f"patchgen: {error}") from None
    config.add_cleanup(collection.session.close)
    config.pluginmanager.register(collection, "patchgen_gate")
    if reporter is not None:
        config.pluginmanager.register(reporter, "patchgen_reporter")
