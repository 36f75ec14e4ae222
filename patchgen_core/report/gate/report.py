"""What a run of the gate found out, and one report of several runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from patchgen_core.checks.result import BAD, CheckResult, Status
from patchgen_core.report.words import quantity

_ORDER = ("drift", "import", "contract", "parity", "converter", "plan", "kernel")
WORST_FIRST: tuple[Status, ...] = ("error", "drifted", "failed", "fixed", "skipped", "clean")


@dataclass(frozen=True)
class GateReport:
    """The records of a run.

    Attributes:
        records: one for each config and check that ran; of parity, one for each implementation.
        not_run: node ids of items that were to run and did not, as when a run was stopped.
        not_collected: config files of the project that the run left out.
        is_short: whether it left them out without being told to.
    """

    records: tuple[CheckResult, ...]
    not_run: tuple[str, ...] = ()
    not_collected: tuple[str, ...] = ()
    is_short: bool = False

    @property
    def exit_code(self) -> int:
        """0 clean, 1 findings or checks that did not run, 2 a config with errors."""
        if any(record.status == "error" for record in self.records):
            return 2
        return int(bool(self.bad or self.not_run or self.is_short))

    @property
    def is_green(self) -> bool:
        """Whether something ran and nothing was found or left out."""
        return bool(self.records) and self.exit_code == 0

    @property
    def verdict(self) -> str:
        """The verdict in a word or two."""
        return "green" if self.is_green else "red" if self.exit_code else "nothing ran"

    @property
    def bad(self) -> tuple[CheckResult, ...]:
        """The records that make the run red."""
        return tuple(record for record in self.records if record.status in BAD)

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of the checks that ran, each once, in the order in which a config's run."""
        names = dict.fromkeys(record.check for record in self.records)
        return tuple(sorted(names, key=_place))

    @property
    def is_mendable(self) -> bool:
        """Whether rewriting files mends something."""
        return any(record.status == "drifted" for record in self.records)

    @property
    def codes(self) -> tuple[str, ...]:
        """The rules that found something, in their order."""
        problems = (problem for record in self.records for problem in (*record.errors, *record.warnings))
        return tuple(sorted({problem.code for problem in problems if problem.code}))

    @property
    def has_orphans(self) -> bool:
        """Whether generated files are there that no config makes."""
        return any(cause.kind == "orphan" for record in self.bad for cause in record.causes)

    def by_config(self) -> dict[tuple[str, str], dict[str, CheckResult]]:
        """The worst record of each check by name and path of the config, in their order."""
        found: dict[tuple[str, str], dict[str, CheckResult]] = {}
        for record in sorted(self.records, key=lambda r: (r.config, r.path)):
            row = found.setdefault((record.config, record.path), {})
            known = row.get(record.check)
            if known is None or WORST_FIRST.index(record.status) < WORST_FIRST.index(known.status):
                row[record.check] = record
        return found

    def summary(self) -> str:
        """Configs, checks and how many of them came to what, in one line."""
        words: dict[Status, str] = {"clean": "ok"}
        counts: dict[str, int] = {}
        for status in reversed(WORST_FIRST):
            count = sum(record.status == status for record in self.records)
            if count:
                counts[words.get(status, status)] = count
        parts = [f"{count} {word}" for word, count in counts.items()]
        parts += [f"{len(self.not_run)} not run"] * bool(self.not_run)
        configs = len({(record.config, record.path) for record in self.records if is_config(record)})
        checks = len(self.records)
        return f"{quantity(configs, 'config')}, {quantity(checks, 'check')}: {', '.join(parts) or 'none ran'}."


def _place(check: str) -> int:
    """Where a check stands among the built-in ones; others come last."""
    kind = check.partition("[")[0]
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def is_config(record: CheckResult) -> bool:
    """Whether a record concerns a config, and not the project."""
    return record.path.endswith(".py")


def with_unused(report: GateReport) -> GateReport:
    """A report that warns of the allowances that no item needed of all that may; once, with the first of these."""
    found: dict[tuple[str, str], dict[str, CheckResult]] = {}
    for record in report.records:
        found.setdefault((record.config, record.path), {})[record.name] = record

    def settled(record: CheckResult) -> CheckResult:
        siblings = [found[record.config, record.path].get(name) for name in record.siblings]
        if not siblings or record.name != record.siblings[0]:
            return record
        idle = [p for p in record.unused if all(s is not None and p in s.unused for s in siblings)]
        new = tuple(problem for problem in idle if problem not in record.warnings)
        return replace(record, warnings=(*record.warnings, *new))

    return replace(report, records=tuple(map(settled, report.records)))


def merge_reports(reports: Iterable[GateReport]) -> GateReport:
    """One report of several runs over parts of a project, such as the jobs of a CI run.

    What one run left out and another ran counts as run; of a check that ran twice the worse verdict counts.
    """
    reports = list(reports)
    records: dict[tuple[str, str, str], CheckResult] = {}
    for record in (record for report in reports for record in report.records):
        key = (record.config, record.path, record.name)
        if key not in records or WORST_FIRST.index(record.status) < WORST_FIRST.index(records[key].status):
            records[key] = record
    ran = {record.item for report in reports for record in report.records}
    paths = {record.path for record in records.values()}
    not_run = dict.fromkeys(item for report in reports for item in report.not_run if item not in ran)
    left_out = dict.fromkeys(path for report in reports for path in report.not_collected if path not in paths)
    is_short = bool(left_out) and any(report.is_short for report in reports)
    return with_unused(GateReport(tuple(records.values()), tuple(not_run), tuple(left_out), is_short))
