"""The page of a run of the gate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from patchgen_core.checks.result import BAD, CheckResult, relative_to, retitled, with_paths
from patchgen_core.errors import Location, display_path
from patchgen_core.report.gate.report import GateReport, find_worst
from patchgen_core.report.html.components import HeatCell, HeatMap, badge, bullet_list, problems_view
from patchgen_core.report.html.diffs import diff_view
from patchgen_core.report.html.figures import figures_view, tables_view
from patchgen_core.report.html.markup import Markup, join_markup, tag
from patchgen_core.report.html.page import Facet, Page, Section, render
from patchgen_core.report.words import quantity

_WARNED = "warned"
_TONES = {
    "error": "bad",
    "drifted": "bad",
    "failed": "bad",
    "fixed": "warn",
    _WARNED: "warn",
    "clean": "good",
    "skipped": "none",
}
"""The statuses that a config may have, in the order of their sections, each with its colour."""


def gate_html(report: GateReport, root: Path) -> str:
    """The report as an HTML page; paths below ``root`` are relative to it."""
    change = relative_to(root)
    results = tuple(retitled(with_paths(result, change)) for result in report.results)
    left_out = tuple(map(change, report.not_collected))
    return render(gate_page(replace(report, results=results, not_collected=left_out)))


def gate_page(report: GateReport, kind: str = "gate") -> Page:
    """The page of a report; ``kind`` is what made it."""
    configs = _by_config(report)
    checks = report.checks
    sections = tuple(_section(label, results, number) for number, (label, results) in enumerate(configs))
    kinds, notable = ({value for section in sections for value in section.values[key]} for key in ("kind", "check"))
    heat = HeatMap("Configs and checks", checks, tuple(_heat_row(results, checks) for _, results in configs))
    return Page(
        kind,
        report.verdict,
        {"green": "good", "red": "bad"}.get(report.verdict, "none"),
        report.summary(),
        _facts(report),
        (
            Facet("status", "Status", tuple(_TONES.items()), is_chips=True),
            Facet("kind", "Cause or rule", _colourless(sorted(kinds))),
            Facet("check", "Check", _colourless(check for check in checks if check in notable)),
        ),
        heat,
        _left_out(report),
        sections,
    )


def _by_config(report: GateReport) -> list[tuple[str, list[CheckResult]]]:
    """The results of each config, the worst configs first."""
    rows = [(label, results) for (label, _), results in report.by_config().items()]
    return sorted(rows, key=lambda row: list(_TONES).index(_status(row[1])))


def _status(results: Sequence[CheckResult]) -> str:
    statuses: set[str] = {result.status for result in results}
    if any(result.warnings for result in results):
        statuses.add(_WARNED)
    return next(status for status in _TONES if status in statuses)


def _facts(report: GateReport) -> tuple[tuple[str, str], ...]:
    seconds = sum(result.seconds for result in report.results)
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
    return join_markup(parts)


def _heat_row(results: Sequence[CheckResult], checks: Sequence[str]) -> tuple[HeatCell, ...]:
    return tuple(_heat_cell([result for result in results if result.check == check]) for check in checks)


def _heat_cell(results: Sequence[CheckResult]) -> HeatCell:
    if not results:
        return HeatCell("\u2013", "", "not run")
    status = find_worst(results).status
    bad = [result for result in results if result.status in BAD]
    warnings = sum(len(result.warnings) for result in results)
    text: str = "ok" if status == "clean" else status
    if len(results) > 1:
        text += f" {len(bad)} of {len(results)}" if bad else f" {len(results)}" if status == "clean" else ""
    if warnings and not bad:
        return HeatCell(f"{text}, {quantity(warnings, 'warning')}", "warn")
    return HeatCell(text, _TONES[status], "; ".join(f"{result.name}: {result.headline}" for result in bad))


def _section(label: str, results: Sequence[CheckResult], number: int) -> Section:
    first = results[0]
    status = _status(results)
    notable = [result for result in results if result.status in BAD or result.warnings or result.status == "fixed"]
    kinds: list[str] = [cause.kind for result in results for cause in result.causes]
    kinds += [problem.code for result in results for problem in (*result.errors, *result.warnings) if problem.code]
    problems = [problem for result in results for problem in (*result.errors, *result.warnings)]
    return Section(
        label,
        str(Location(first.path, first.line)),
        status,
        _TONES[status],
        _summary(results, notable),
        join_markup(_body(results, f"r{number}")),
        {
            "status": (status,),
            "kind": tuple(dict.fromkeys(kinds)),
            "check": tuple(dict.fromkeys(result.check for result in notable)),
        },
        (
            *(result.status for result in notable),
            *(problem.message for problem in problems),
            *(str(cause) for result in results for cause in result.causes),
        ),
    )


def _summary(results: Sequence[CheckResult], notable: Sequence[CheckResult]) -> str:
    if not notable:
        return quantity(len(results), "check")
    return "; ".join(f"{result.name}: {_headline(result)}" for result in notable[:2]) + (
        f"; {len(notable) - 2} more" if len(notable) > 2 else ""
    )


def _headline(result: CheckResult) -> str:
    if result.status in BAD or not result.warnings:
        return result.headline
    return result.warnings[0].title


def _body(results: Sequence[CheckResult], name: str) -> Iterator[Markup]:
    """Each check; those that say nothing but that they are clean in one line, after the others."""
    views = [_result(result, f"{name}-{number}") for number, result in enumerate(results)]
    yield from filter(None, views)
    clean = [result.name for result, view in zip(results, views) if not view]
    if clean:
        yield tag("p", badge("clean", "good"), f" {', '.join(clean)}", class_="quiet")


def _result(result: CheckResult, name: str) -> Markup:
    """What a check says; empty for a clean one that says nothing more."""
    tone = _TONES[result.status]
    time = tag("span", f"{result.seconds:.2f} s", class_="dim time") if result.seconds >= 0.01 else None
    reason = result.reason or (f"imported for real: {result.loading_reason}" if result.loading_reason else "")
    parts = [
        bullet_list(map(str, result.causes), "causes"),
        problems_view(result.errors),
        problems_view(result.warnings, "warning"),
        bullet_list([f"rewrote {display_path(path)}" for path in result.written]),
        bullet_list([f"kept a copy of the hand edits: {display_path(path)}" for path in result.copies]),
        bullet_list([f"removed {display_path(path)}" for path in result.removed]),
        tables_view(result.tables, name),
        *_diffs(result),
        figures_view(result.figures),
        bullet_list(result.notes),
    ]
    if result.status == "clean" and not reason and not any(parts):
        return Markup()
    title = tag("h4", result.name)
    head = tag("div", title, badge(result.status, tone), tag("span", reason, class_="dim") if reason else None, time)
    return tag("div", head, *parts, class_="record")


def _diffs(result: CheckResult) -> Iterator[Markup]:
    is_open = result.status in BAD
    for cause in result.causes:
        yield diff_view(cause.upstream_diff, "What upstream changed in the patched code", is_open)
    for file in result.files:
        if file.missing:
            yield tag("p", tag("code", display_path(file.path)), " does not exist.", class_="missing")
        else:
            is_file_open = is_open and not file.path.endswith(".diff")
            yield diff_view(file.telling or file.diff, display_path(file.path), is_file_open)


def _colourless(values: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((value, "none") for value in values)
