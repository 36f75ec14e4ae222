"""The checks that ``patchgen watch --checks`` runs beside the watch, and what it prints of them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.checks.registry import CheckInfo
from patchgen_core.checks.settings import CONTRACT, DRIFT
from patchgen_core.cli.items import choose_checks
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.report.words import quantity
from patchgen_core.watch.gate_run import GateRun, WarmImports

if TYPE_CHECKING:
    from rich.console import Console

    from patchgen_core.checks.result import CheckResult


def choose_watched_checks(options: argparse.Namespace) -> list[CheckInfo]:
    """The checks that ``--checks`` names beside those that a watch does anyway.

    Raises:
        PatchgenError: there is no such check, or none is left, or they would not see what the watch makes.
    """
    for flag, value in (("--config-name", options.config_name), ("--output-dir", options.output_dir)):
        if value is not None:
            hint = "Leave one of them out: the other checks run over all that a config file makes, where it belongs."
            raise PatchgenError(f"--checks does not go with {flag}", None, hint)
    checks = [check for check in choose_checks(options) if check.name not in (DRIFT, CONTRACT)]
    if not checks:
        raise PatchgenError(
            f"--checks names nothing that a watch does not do anyway: '{options.checks}'",
            None,
            "Name others beside drift and contract, such as --checks import,parity.",
        )
    return checks


class WatchedChecks:
    """Runs checks of the configs that saves concern, one run at a time, and prints their results as they come.

    Args:
        is_caching: whether results of earlier runs are used.

    Attributes:
        description: their names.
    """

    def __init__(self, checks: Sequence[CheckInfo], console: Console, is_caching: bool, verbose: bool) -> None:
        self._names = [check.name for check in checks]
        self.description = ", ".join(self._names)
        self._console, self._is_caching, self._verbose = console, is_caching, verbose
        self._imports = WarmImports(checks)
        self._run: GateRun | None = None
        self._began = 0.0

    def warm_up(self, project: Project) -> None:
        """Have what is slow to import be imported, anew where that has changed, for gates of the project as well that
        somebody else starts."""
        self._imports.start(project)

    def begin(self, base: Path, configs: Iterable[Path]) -> None:
        """Run the checks of config files, and of those whose run this ends."""
        wanted = list(dict.fromkeys([*configs, *(self._run.configs if self._run is not None else ())]))
        self.stop()
        wanted = [path for path in wanted if path.is_file()]
        if not wanted:
            return
        try:
            self._run = GateRun(base, wanted, self._names, self._is_caching)
        except PatchgenError as error:
            self._tell_failure(str(error))
            return
        self._began = time.perf_counter()
        subject = wanted[0].stem if len(wanted) == 1 else quantity(len(wanted), "config file")
        self._console.print(f"running {self.description} of {subject}", style="dim", soft_wrap=True, highlight=False)

    def show(self) -> None:
        """Print the results that have come, and the summary of a run that is over."""
        run = self._run
        if run is None:
            return
        is_over = run.is_over
        for result in run.take():
            self._print(result)
        if is_over:
            self._summarize(run)
            self.stop()

    def _print(self, result: CheckResult) -> None:
        from patchgen_core.report.gate.details import print_details, verdict_text

        if result.is_bad or result.warnings or self._verbose:
            self._console.print(verdict_text(result), soft_wrap=True)
            print_details(self._console, result, self._verbose, is_whole=self._verbose)

    def _summarize(self, run: GateRun) -> None:
        from rich.text import Text

        from patchgen_core.report.gate.report import GateReport

        if run.failure:
            self._tell_failure(run.failure)
        if run.results:
            report = GateReport(run.results)
            text = f"{self.description}: {report.summary()} Took {time.perf_counter() - self._began:.1f} s."
            is_green = report.is_green and not run.failure
            self._console.print(Text(text, "green" if is_green else "red"), soft_wrap=True)
        elif not run.failure:
            self._console.print(f"{self.description}: nothing to check.", soft_wrap=True)

    def _tell_failure(self, reason: str) -> None:
        self._console.print(
            f"the checks did not run to their end: {reason}", style="red", soft_wrap=True, markup=False
        )

    def stop(self) -> None:
        """End the run that goes on."""
        if self._run is not None:
            self._run.close()
            self._run = None

    def close(self) -> None:
        """End everything."""
        self.stop()
        self._imports.close()
