"""The page of a run of the gate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from patchgen_core.checks.result import BAD, CheckResult, Status, relative_to, retitled, with_paths
from patchgen_core.errors import display_path
from patchgen_core.report.gate.report import GateReport
from patchgen_core.report.html.diffs import diff_view
from patchgen_core.report.html.figures import figures_view, tables_view
from patchgen_core.report.html.markup import Markup, joined, tag
from patchgen_core.report.html.page import Facet, Page, Section, render
from patchgen_core.report.html.parts import HeatCell, HeatMap, badge, listed, problems_view

_TONES: dict[Status, str] = {
    "error": "bad",
    "drifted": "bad",
    "failed": "bad",
    "fixed": "warn",
    "skipped": "none",
    "clean": "good",
}
"""From the worst on."""
_WARNED = "warned"
_STATUSES = (("error", "bad"), ("drifted", "bad"), ("failed", "bad"), ("fixed", "warn"), (_WARNED, "warn"))
_MILD = (("clean", "good"), ("skipped", "none"))


def html_text(report: GateReport, path: Path, root: Path) -> str:
    """The text of an HTML file."""
    change = relative_to(root)
    results = tuple(retitled(with_paths(record, change)) for record in report.records)
    left_out = tuple(map(change, report.not_collected))
    return render(gate_page(replace(report, records=results, not_collected=left_out)))


def gate_page(report: GateReport, kind: str = "gate") -> Page:
    """The page of a report; ``kind`` is what made it."""
    configs = _by_config(report)
    checks = report.checks
    sections = tuple(_section(label, records, number) for number, (label, records) in enumerate(configs))
    heat = HeatMap("Configs and checks", checks, tuple(_heat_row(records, checks) for _, records in configs))
    return Page(
        kind,
        report.verdict,
        {"green": "good", "red": "bad"}.get(report.verdict, "none"),
        report.summary(),
        _facts(report),
        (
            Facet("status", "Status", (*_STATUSES, *_MILD), is_chips=True),
            Facet("kind", "Cause or rule", _plain(_sorted(sections, "kind"))),
            Facet("check", "Check", _plain(check for check in checks if _has(sections, check))),
        ),
        heat,
        _left_out(report),
        sections,
    )


def _by_config(report: GateReport) -> list[tuple[str, list[CheckResult]]]:
    """The records of each config, the worst configs first, each config's in the order of its checks."""
    found: dict[tuple[str, str], list[CheckResult]] = {}
    for record in sorted(report.records, key=lambda r: (r.config, r.path)):
        found.setdefault((record.config, record.path), []).append(record)
    order = {check: number for number, check in enumerate(report.checks)}
    rows = [(key[0], sorted(records, key=lambda r: order[r.check])) for key, records in found.items()]
    return sorted(rows, key=lambda row: _rank(_status(row[1])))


def _rank(status: str) -> int:
    return [name for name, _ in (*_STATUSES, *_MILD)].index(status)


def _status(records: Sequence[CheckResult]) -> str:
    """The worst that was found out; skipped where nothing else was."""
    statuses = {record.status for record in records}
    worst = next((name for name, _ in _STATUSES if name in statuses), "")
    if worst:
        return worst
    if any(record.warnings for record in records):
        return _WARNED
    return "clean" if "clean" in statuses else "skipped"


def _facts(report: GateReport) -> tuple[tuple[str, str], ...]:
    seconds = sum(record.seconds for record in report.records)
    facts = [("checks", ", ".join(report.checks))] * bool(report.checks)
    facts += [("time of all checks", f"{seconds:.1f} s")] * bool(seconds)
    facts += [("exit code", str(report.exit_code))]
    return tuple(facts)


def _left_out(report: GateReport) -> Markup:
    parts = []
    for title, names in (
        ("Not run", report.not_run),
        ("Not collected", tuple(display_path(path) for path in report.not_collected)),
    ):
        if names:
            parts.append(tag("h2", f"{title}: {len(names)}"))
            parts.append(tag("ul", *(tag("li", tag("code", name)) for name in names), class_="plain"))
    return joined(parts)


def _heat_row(records: Sequence[CheckResult], checks: Sequence[str]) -> tuple[HeatCell, ...]:
    return tuple(_heat_cell([record for record in records if record.check == check]) for check in checks)


def _heat_cell(records: Sequence[CheckResult]) -> HeatCell:
    """A check of a config; of parity all implementations."""
    if not records:
        return HeatCell("\u2013", "", "not run")
    status = next(status for status in _TONES if any(record.status == status for record in records))
    bad = [record for record in records if record.status in BAD]
    warnings = sum(len(record.warnings) for record in records)
    text: str = "ok" if status == "clean" else status
    if len(records) > 1:
        text += f" {len(bad)} of {len(records)}" if bad else f" {len(records)}" if status == "clean" else ""
    if warnings and not bad:
        return HeatCell(f"{text}, {warnings} warning{'s' * (warnings > 1)}", "warn")
    return HeatCell(text, _TONES[status], "; ".join(f"{record.name}: {record.headline}" for record in bad))


def _section(label: str, records: Sequence[CheckResult], number: int) -> Section:
    first = records[0]
    status = _status(records)
    telling = [record for record in records if record.status in BAD or record.warnings or record.status == "fixed"]
    kinds: list[str] = [cause.kind for record in records for cause in record.causes]
    kinds += [problem.code for record in records for problem in (*record.errors, *record.warnings) if problem.code]
    problems = [problem for record in records for problem in (*record.errors, *record.warnings)]
    path = display_path(first.path)
    return Section(
        label,
        f"{path}:{first.line}" if first.line else path,
        status,
        dict((*_STATUSES, *_MILD))[status],
        _summary(records, telling),
        joined(_body(records, f"r{number}")),
        {
            "status": (status,),
            "kind": tuple(dict.fromkeys(kinds)),
            "check": tuple(dict.fromkeys(record.check for record in telling)),
        },
        (
            *(record.status for record in telling),
            *(problem.message for problem in problems),
            *(str(cause) for record in records for cause in record.causes),
        ),
    )


def _summary(records: Sequence[CheckResult], telling: Sequence[CheckResult]) -> str:
    if not telling:
        return f"{len(records)} check{'s' * (len(records) != 1)}"
    return "; ".join(f"{record.name}: {_headline(record)}" for record in telling[:2]) + (
        f"; {len(telling) - 2} more" if len(telling) > 2 else ""
    )


def _headline(record: CheckResult) -> str:
    if record.status in BAD or not record.warnings:
        return record.headline
    return record.warnings[0].title


def _body(records: Sequence[CheckResult], name: str) -> Iterator[Markup]:
    """Each check; those that say nothing but that they are clean in one line, after the others."""
    said = [_record(record, f"{name}-{number}") for number, record in enumerate(records)]
    yield from (markup for markup in said if markup)
    quiet = [record.name for record, markup in zip(records, said) if not markup]
    if quiet:
        yield tag("p", badge("clean", "good"), f" {', '.join(quiet)}", class_="quiet")


def _record(record: CheckResult, name: str) -> Markup:
    """What a check says; empty for a clean one that says nothing more."""
    tone = _TONES[record.status]
    time = tag("span", f"{record.seconds:.2f} s", class_="dim time") if record.seconds >= 0.01 else None
    said = record.reason or (f"imported for real: {record.loading_reason}" if record.loading_reason else "")
    parts = [
        listed(map(str, record.causes), "causes"),
        problems_view(record.errors),
        problems_view(record.warnings, "warning"),
        listed([f"rewrote {display_path(path)}" for path in record.written]),
        listed([f"removed {display_path(path)}" for path in record.removed]),
        tables_view(record.tables, name),
        *_diffs(record),
        figures_view(record.figures),
        listed(record.notes),
    ]
    if record.status == "clean" and not said and not any(parts):
        return Markup()
    title = tag("h4", record.name)
    head = tag("div", title, badge(record.status, tone), tag("span", said, class_="dim") if said else None, time)
    return tag("div", head, *parts, class_="record")


def _diffs(record: CheckResult) -> Iterator[Markup]:
    is_open = record.status in BAD
    for cause in record.causes:
        yield diff_view(cause.upstream_diff, "What upstream changed in the patched code", is_open)
    for file in record.files:
        if file.missing:
            yield tag("p", tag("code", display_path(file.path)), " does not exist.", class_="missing")
        else:
            is_file_open = is_open and not file.path.endswith(".diff")
            yield diff_view(file.telling or file.diff, display_path(file.path), is_file_open)


def _plain(values: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((value, "none") for value in values)


def _sorted(sections: Sequence[Section], key: str) -> list[str]:
    return sorted({value for section in sections for value in section.values.get(key, ())})


def _has(sections: Sequence[Section], check: str) -> bool:
    return any(check in section.values["check"] for section in sections)
