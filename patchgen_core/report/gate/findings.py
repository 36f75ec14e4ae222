"""What a run found, one thing at a time, for formats that show each at its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from patchgen_core.checks.result import BAD, CheckResult, with_paths
from patchgen_core.errors import Location, Problem
from patchgen_core.report.gate.report import GateReport


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes:
        code: that of the rule that found it; empty where none did.
        at: where it comes from: a line of the config, or of what it imports.
        generated: where it shows in the generated module; None where that is not known.
        hint: what to do about it; empty for nothing.
        result: the result that it is part of.
    """

    level: Literal["error", "warning"]
    code: str
    at: Location
    message: str
    generated: Location | None
    hint: str
    result: CheckResult

    @property
    def rule(self) -> str:
        """The code of the rule that found it; where none did, the name of the check."""
        return self.code or self.result.check

    @property
    def title(self) -> str:
        """Which item found it, about which config."""
        return f"patchgen {self.result.name}: {self.result.config}"


def list_findings(report: GateReport, change: Callable[[str], str]) -> Iterator[Finding]:
    """The errors and warnings of a run, result by result, with their paths changed.

    A result that is bad for a reason alone, as after a crash, is one error.
    """
    for result in (with_paths(result, change) for result in report.results):
        whole = Location(result.path, result.line)
        if result.status in BAD:
            if result.reason and not result.causes and not result.errors:
                yield Finding("error", "", whole, result.headline, None, "", result)
            for cause in result.causes:
                yield Finding("error", "", whole, str(cause), None, "", result)
            for problem in result.errors:
                yield _of_problem("error", problem, result)
        for problem in result.warnings:
            yield _of_problem("warning", problem, result)


def _of_problem(level: Literal["error", "warning"], problem: Problem, result: CheckResult) -> Finding:
    generated = problem.generated.location if problem.generated else None
    at = problem.location or Location(result.path, result.line)
    return Finding(level, problem.code, at, problem.message, generated, problem.hint, result)
