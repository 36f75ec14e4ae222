"""What a run of the gate found out, and one report of several runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from patchgen_core.checks.parity_codes import UNUSED
from patchgen_core.checks.registry import place
from patchgen_core.checks.result import BAD, CheckResult, Status
from patchgen_core.report.words import quantity, state_count

RUNNING = ("parity", "sharded")
"""The checks whose warnings tell of what did not run."""
WORST_FIRST: tuple[Status, ...] = ("error", "drifted", "failed", "fixed", "skipped", "clean")


@dataclass(frozen=True)
class GateReport:
    """The results of a run.

    Attributes:
        results: one for each config and check that ran; of parity, one for each implementation.
        not_run: node ids of items that were to run and did not, as when a run was stopped.
        not_collected: config files of the project that the run left out.
        is_short: whether it left them out without being told to.
    """

    results: tuple[CheckResult, ...]
    not_run: tuple[str, ...] = ()
    not_collected: tuple[str, ...] = ()
    is_short: bool = False

    @property
    def exit_code(self) -> int:
        """0 clean, 1 findings or checks that did not run, 2 a config with errors."""
        if any(result.status == "error" for result in self.results):
            return 2
        return int(bool(self.bad or self.not_run or self.is_short))

    @property
    def is_green(self) -> bool:
        """Whether something ran and nothing was found or left out."""
        return bool(self.results) and self.exit_code == 0

    @property
    def verdict(self) -> str:
        """The verdict in a word or two."""
        return "green" if self.is_green else "red" if self.exit_code else "nothing ran"

    @property
    def bad(self) -> tuple[CheckResult, ...]:
        """The results that make the run red."""
        return tuple(result for result in self.results if result.status in BAD)

    @property
    def unproved(self) -> int:
        """How many warnings of what is green tell of something that no check has seen run, each counted once."""
        green = (result for result in self.results if result.status not in BAD)
        warnings = (problem for result in green if result.check in RUNNING for problem in result.warnings)
        return len({problem for problem in warnings if problem.code != UNUSED})

    @property
    def held(self) -> int:
        """How many findings baselines hold back."""
        return sum(len(result.held) for result in self.results)

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of the checks that ran, each once, in the order in which a config's run."""
        return tuple(sorted(dict.fromkeys(result.check for result in self.results), key=place))

    @property
    def codes(self) -> tuple[str, ...]:
        """The rules that found something, in their order."""
        problems = (problem for result in self.results for problem in (*result.errors, *result.warnings))
        return tuple(sorted({problem.code for problem in problems if problem.code}))

    def by_config(self) -> dict[tuple[str, str], list[CheckResult]]:
        """The results by name and path of the config, in their order; each config's in the order of its checks."""
        rows: dict[tuple[str, str], list[CheckResult]] = {}
        order = self.checks.index
        for result in sorted(self.results, key=lambda r: (r.config, r.path, order(r.check))):
            rows.setdefault((result.config, result.path), []).append(result)
        return rows

    def summary(self) -> str:
        """Configs, checks and how many of them came to what, in one line."""
        words: dict[Status, str] = {"clean": "ok"}
        counts: dict[str, int] = {}
        for status in reversed(WORST_FIRST):
            count = sum(result.status == status for result in self.results)
            if count:
                counts[words.get(status, status)] = count
        parts = [state_count(count, word) for word, count in counts.items()]
        kept = sum(bool(result.made) for result in self.results)
        parts += [f"{kept} of them from earlier runs"] * bool(kept)
        parts += [f"{len(self.not_run)} not run"] * bool(self.not_run)
        parts += [f"{quantity(count, 'warning')} about unproved code" for count in [self.unproved] if count]
        parts += [f"{quantity(count, 'finding')} held back" for count in [self.held] if count]
        configs = len({(result.config, result.path) for result in self.results if is_config(result)})
        checks = len(self.results)
        return f"{quantity(configs, 'config')}, {quantity(checks, 'check')}: {', '.join(parts) or 'none ran'}."


def find_worst(results: Iterable[CheckResult]) -> CheckResult:
    """The first of the results, of which there is at least one, that has the worst status."""
    return min(results, key=lambda result: WORST_FIRST.index(result.status))


def is_config(result: CheckResult) -> bool:
    """Whether a result concerns a config, and not the project."""
    return result.path.endswith(".py")


def with_unused(report: GateReport) -> GateReport:
    """A report that warns of the allowances that no item needed of all that may; once, with the first of these."""
    by_config = report.by_config()

    def add_warnings(result: CheckResult) -> CheckResult:
        if not result.siblings or result.name != result.siblings[0]:
            return result
        by_name = {other.name: other for other in by_config[result.config, result.path]}
        siblings = [by_name.get(name) for name in result.siblings]
        unused = [p for p in result.unused if all(s is not None and p in s.unused for s in siblings)]
        new = tuple(problem for problem in unused if problem not in result.warnings)
        return replace(result, warnings=(*result.warnings, *new))

    return replace(report, results=tuple(map(add_warnings, report.results)))


def merge_reports(reports: Iterable[GateReport]) -> GateReport:
    """One report of several runs over parts of a project, such as the jobs of a CI run.

    What one run left out and another ran counts as run; of a check that ran twice the worse verdict counts.
    """
    reports = list(reports)
    results: dict[tuple[str, str, str], CheckResult] = {}
    for result in (result for report in reports for result in report.results):
        key = (result.config, result.path, result.name)
        results[key] = find_worst([results.get(key, result), result])
    ran = {result.item for report in reports for result in report.results}
    paths = {result.path for result in results.values()}
    not_run = dict.fromkeys(item for report in reports for item in report.not_run if item not in ran)
    left_out = dict.fromkeys(path for report in reports for path in report.not_collected if path not in paths)
    is_short = bool(left_out) and any(report.is_short for report in reports)
    return with_unused(GateReport(tuple(results.values()), tuple(not_run), tuple(left_out), is_short))
