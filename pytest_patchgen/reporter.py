"""What a session says about the gate: in the terminal, in files, to GitHub. Lives where the terminal is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.text import Text

from patchgen_core.errors import Problem, display_path
from patchgen_core.report.gate import GateReport, check_report_name, print_gate, write_report
from patchgen_core.report.github import commands, is_github, write_step_summary
from patchgen_core.report.record import BAD, Record, unpack
from patchgen_core.report.terminal import print_problems
from pytest_patchgen import CONFIG_SUFFIX
from pytest_patchgen.failure import FailureRepr, console_for, printed

if TYPE_CHECKING:
    from pytest_patchgen.gate import Gate


class Reporter:
    """Collects what the items of a session found out, from all its workers, and reports it."""

    def __init__(self, config: pytest.Config, gate: Gate) -> None:
        self.config, self.gate = config, gate
        self.path = _report_path(config)
        self.records: dict[str, list[Record]] = {}
        self.selected: dict[str, None] = {}
        self.collected: set[Path] | None = None

    # --- what comes in ---

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note what is going to run."""
        if session.items:
            self._select(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Note what is going to run in workers."""
        self._select(ids)

    def _select(self, ids: Any) -> None:
        self.selected.update(dict.fromkeys(nodeid for nodeid in ids if _is_check(nodeid)))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Refuse to mend files that are copies."""
        spec = node.gateway.spec
        if (self.gate.fix or self.gate.prune) and (not spec.popen or spec.chdir):
            raise pytest.UsageError(
                f"patchgen: worker '{spec}' has a copy of the files, and --patchgen-fix would mend only that; "
                "run it without --tx"
            )

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take over what a worker collected."""
        output = getattr(node, "workeroutput", {})
        if "patchgen_collected" in output:
            paths = (Path(self.config.rootpath, path) for path in output["patchgen_collected"])
            self.collected = (self.collected or set()).union(paths)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in a report; one of a worker is shown as one of this process."""
        data = getattr(report, "patchgen", None)
        if data is not None:
            records = [unpack(record, self.config.rootpath) for record in data["records"]]
            self.records[report.nodeid] = records
            if report.failed and isinstance(report.longrepr, str):
                report.longrepr = FailureRepr(records, data["traceback"], self.config.get_verbosity())  # type: ignore[assignment]
        elif report.failed and (report.nodeid in self.selected or _is_check(report.nodeid)):
            self.records[report.nodeid] = [self._crash(report)]

    def _crash(self, report: pytest.TestReport) -> Record:
        """The record of a check that raised something else, timed out, or took its worker with it."""
        path, _, check = report.nodeid.rpartition("::")
        crash = getattr(report.longrepr, "reprcrash", None)
        said = crash.message if crash else str(report.longrepr).strip().splitlines()[-1]
        file = Path(self.config.rootpath, path)
        return Record(file.stem, str(file), 0, check, "error", errors=(Problem(f"the check did not finish: {said}"),))

    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        """A check that mended something passes, and says so with ``-v``."""
        data = getattr(report, "patchgen", None)
        if data and report.passed and any(record["status"] == "fixed" for record in data["records"]):
            return "passed", ".", ("FIXED", {"yellow": True})
        return None

    # --- what goes out ---

    def report(self) -> GateReport:
        """What is known now."""
        records = tuple(record for nodeid in sorted(self.records) for record in self.records[nodeid])
        not_run = []
        for nodeid in self.selected:
            if nodeid not in self.records:
                path, _, check = nodeid.rpartition("::")
                not_run.append((path, check))
        return GateReport(records, tuple(not_run), tuple(map(display_path, self._left_out())))

    def _left_out(self) -> list[Path]:
        if not self.gate.is_whole:
            return []
        collected = self.collected if self.collected is not None else set(self.gate.collected)
        return [path for path in self.gate.configs if path not in collected]

    def pytest_report_header(self) -> list[str]:
        """Say what is gated."""
        gate = self.gate
        checks = ", ".join(check.check for check in gate.checks)
        where = ""
        if gate.is_whole and gate.project is not None:
            where = f"{len(gate.configs)} configs below {display_path(gate.project.search_root)}, "
        mode = " (fixing)" * gate.fix
        return [f"patchgen: {where}checks: {checks}{mode}"]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the files; a whole run that came upon no config at all is red."""
        report = self.report()
        if self._is_empty() and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.config.option.collectonly:
            return
        if self.path is not None:
            write_report(report, self.path, self.config.rootpath)
        if is_github(os.environ) and self.records:
            write_step_summary(report, os.environ)

    def _is_empty(self) -> bool:
        return self.gate.is_whole and bool(self.gate.configs) and len(self._left_out()) == len(self.gate.configs)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The section of the gate."""
        if self.config.option.collectonly:
            return
        report = self.report()
        tw = terminalreporter
        tw.section("patchgen", bold=True)
        console = console_for(tw._tw)
        if report.records and self.config.get_verbosity() >= 0:
            print_gate(console, report, self.config.get_verbosity() > 0)
        for line in self._lines(report):
            console.print(line, soft_wrap=True)
        for record in report.records:
            if record.status not in BAD:
                print_problems(console, record.warnings, "warning")
        tw.write(printed(console))
        if is_github(os.environ):
            workspace = Path(os.environ.get("GITHUB_WORKSPACE", self.config.rootpath))
            for command in commands(report, workspace):
                tw.write_line(command)

    def _lines(self, report: GateReport) -> Iterator[Text]:
        for record in report.records:
            for path in record.written:
                yield Text.assemble(("rewrote  ", "yellow"), display_path(path))
            for path in record.removed:
                yield Text.assemble(("removed  ", "yellow"), display_path(path))
        if not report.records and not self.selected:
            yield Text(self._nothing(), "yellow")
        else:
            yield Text(report.summary(), "red" if report.bad else "green")
        for path in report.not_collected:
            yield Text(f"not collected: {path} (--ignore, norecursedirs or collect_ignore)", "yellow")
        if self.path is not None:
            yield Text(f"report: {display_path(self.path)}")
        arguments = self._arguments()
        if report.is_mendable:
            yield Text(f"Run 'pytest --patchgen-fix{arguments}' to rewrite what drifted.", "cyan")
        if report.has_orphans:
            yield Text(f"Run 'pytest --patchgen-prune{arguments}' to remove orphans.", "cyan")

    def _nothing(self) -> str:
        if self.gate.is_whole:
            return "No check of a patch config was chosen."
        return f"There is no patch config in {', '.join(self.config.args)}: its name ends in '{CONFIG_SUFFIX}'."

    def _arguments(self) -> str:
        given = self.config.option.file_or_dir
        return "".join(f" {argument}" for argument in given)


def _is_check(nodeid: str) -> bool:
    path, _, check = nodeid.rpartition("::")
    return path.endswith(CONFIG_SUFFIX) or (path.endswith("pyproject.toml") and check == "orphans")


def _report_path(config: pytest.Config) -> Path | None:
    value = config.option.patchgen_report
    if value is None:
        return None
    path = Path(config.invocation_params.dir, value)
    check_report_name(path)
    return path
