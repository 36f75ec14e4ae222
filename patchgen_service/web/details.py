"""Results of a run in full, as the core's report shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from sqlalchemy import select

from patchgen_core.checks.result import BAD, CheckResult, Status, retitled
from patchgen_core.report.gate.html import gate_page
from patchgen_core.report.gate.report import GateReport
from patchgen_core.report.html.page import Page, Section
from patchgen_service.database.tables import Result
from patchgen_service.records.results import read_result
from patchgen_service.store import StoreError
from patchgen_service.views.branch import ConfigKey
from patchgen_service.views.run import ResultLine, RunDetail
from patchgen_service.web.visits import Visit

_MOST = 60
"""So many results are shown in full on the page of a run; the others have pages of their own."""


@dataclass(frozen=True)
class ConfigSection:
    """A config of a run with what its red checks say.

    Attributes:
        results: its red results, new ones first.
        section: what the core's report says of it; none where that is left to the pages of the results.
    """

    key: ConfigKey
    results: tuple[ResultLine, ...]
    section: Section | None

    @property
    def is_new(self) -> bool:
        """Whether something of it is red that the baseline had not."""
        return any(result.change == "new" or not result.change for result in self.results)


@dataclass(frozen=True)
class RunSections:
    """The red configs of a run: those with something new, then those whose state was known."""

    new: tuple[ConfigSection, ...]
    known: tuple[ConfigSection, ...]
    fixed: tuple[ResultLine, ...]


def read_sections(visit: Visit, detail: RunDetail) -> RunSections:
    """What a run's page shows of its results."""
    bad = [result for result in detail.results if result.is_bad]
    bad.sort(key=lambda result: (result.change == "known", result.check != "drift"))
    by_config: dict[ConfigKey, list[ResultLine]] = {}
    for result in bad:
        by_config.setdefault(result.key, []).append(result)
    page = report_page(read_whole(visit, bad[:_MOST]))
    sections = {
        (section.label, section.place.rpartition(":")[0] or section.place): section for section in page.sections
    }
    shown = [
        ConfigSection(key, tuple(results), sections.get((key.config, key.path))) for key, results in by_config.items()
    ]
    return RunSections(
        tuple(one for one in shown if one.is_new),
        tuple(one for one in shown if not one.is_new),
        detail.changed("fixed"),
    )


def read_whole(visit: Visit, lines: Sequence[ResultLine]) -> tuple[CheckResult, ...]:
    """The whole results of lines; where one is no longer kept, what its line says of it."""
    rows = visit.session.scalars(select(Result).where(Result.id.in_([line.id for line in lines])))
    by_id = {row.id: row for row in rows}
    return tuple(_whole(visit, by_id[line.id]) for line in lines)


def whole_report(visit: Visit, detail: RunDetail) -> Page:
    """The report of a run, as ``patchgen gate --report`` makes it."""
    return report_page(read_whole(visit, detail.results), f"gate, {detail.line.repository}")


def report_page(results: Sequence[CheckResult], kind: str = "gate") -> Page:
    """The core's report of results; without their tables where these, which come from outside, cannot be drawn."""
    try:
        return gate_page(GateReport(tuple(results)), kind)
    except (KeyError, ValueError, TypeError, IndexError):
        return gate_page(GateReport(tuple(replace(result, tables=(), figures={}) for result in results)), kind)


def make_patch(visit: Visit, detail: RunDetail) -> str:
    """The regenerated files of a run as a patch for ``git apply``."""
    drifted = [result for result in detail.results if result.is_bad and result.check == "drift"]
    parts = []
    for file in (file for result in read_whole(visit, drifted) for file in result.files):
        _, _, hunks = file.diff.partition("\n+++ ")
        if hunks:
            old = "/dev/null" if file.missing else f"a/{file.path}"
            parts.append(f"--- {old}\n+++ b/{file.path}\n{hunks.partition(chr(10))[2]}")
    return "".join(part if part.endswith("\n") else f"{part}\n" for part in parts)


def result_section(visit: Visit, line: ResultLine) -> Section:
    """What the core's report says of one result."""
    return report_page(read_whole(visit, [line])).sections[0]


def _whole(visit: Visit, row: Result) -> CheckResult:
    try:
        return retitled(replace(read_result(visit.site.store, row), seconds=row.seconds))
    except StoreError as error:
        reason = row.headline if row.status in BAD else ""
        status = cast(Status, row.status)
        return CheckResult(
            row.config, row.path, row.line, row.check, status, reason=reason, notes=(str(error),), item=row.item
        )
