"""What a run of the gate found out over all configs and checks: as a table, as JSON, as Markdown."""

from __future__ import annotations

import html
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen_core.checks.result import (
    BAD,
    STATUS_STYLE,
    CheckResult,
    Status,
    pack,
    relative_to,
    retitled,
    unpack,
    with_paths,
)
from patchgen_core.errors import Location, PatchgenError, display_path
from patchgen_core.files import write_files
from patchgen_core.report.data import SCHEMA

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_ORDER = ("drift", "import", "contract", "parity", "converter", "plan", "kernel")
_WORST: tuple[Status, ...] = ("error", "drifted", "failed", "fixed", "skipped", "clean")


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
            if known is None or _WORST.index(record.status) < _WORST.index(known.status):
                row[record.check] = record
        return found

    def summary(self) -> str:
        """Configs, checks and how many of them came to what, in one line."""
        words: dict[Status, str] = {"clean": "ok"}
        counts: dict[str, int] = {}
        for status in reversed(_WORST):
            count = sum(record.status == status for record in self.records)
            if count:
                counts[words.get(status, status)] = count
        parts = [f"{count} {word}" for word, count in counts.items()]
        parts += [f"{len(self.not_run)} not run"] * bool(self.not_run)
        configs = len({(record.config, record.path) for record in self.records if _is_config(record)})
        checks = len(self.records)
        return f"{_count(configs, 'config')}, {_count(checks, 'check')}: {', '.join(parts) or 'none ran'}."


def _place(check: str) -> int:
    """Where a check stands among the built-in ones; others come last."""
    kind = check.partition("[")[0]
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _is_config(record: CheckResult) -> bool:
    """Whether a record concerns a config, and not the project."""
    return record.path.endswith(".py")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def _cell(record: CheckResult | None) -> str:
    if record is None:
        return "-"
    kinds = ", ".join(dict.fromkeys(cause.kind for cause in record.causes))
    said: str = "ok" if record.status == "clean" else record.status
    if record.status in ("fixed", "failed", "drifted") and kinds:
        said = f"{record.status}: {kinds}"
    is_told = record.warnings and record.status not in BAD
    return f"{said}, {_count(len(record.warnings), 'warning')}" if is_told else said


def gate_table(report: GateReport, verbose: bool = False) -> Table:
    """Configs against checks. Without ``verbose`` those with nothing to say share one row."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("config", *report.checks):
        table.add_column(name, overflow="fold")
    for row in _styled_rows(report, verbose):
        table.add_row(*(Text(text, style) for text, style in row))
    return table


def gate_lines(report: GateReport, verbose: bool = False) -> list[str]:
    """The lines of :func:`gate_table` without colours, as wide as they must be; made without rich."""
    rows = [[text for text, _ in row] for row in _styled_rows(report, verbose)]
    if not rows:
        return []
    rows.insert(0, ["config", *report.checks])
    widths = [max(map(_width, column)) for column in zip(*rows)]
    return ["  ".join(cell + " " * (w - _width(cell)) for cell, w in zip(row, widths)).rstrip(" ") for row in rows]


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _styled_rows(report: GateReport, verbose: bool) -> Iterator[list[tuple[str, str]]]:
    """The rows of :func:`gate_table`: cells, each with its style."""
    rows, quiet = _rows(report, verbose)
    for config, row in rows.items():
        cells = [(_cell(r), STATUS_STYLE[r.status] if r else "dim") for r in map(row.get, report.checks)]
        yield [(config, ""), *cells]
    if quiet:
        counts = [(f"{count} ok", "green") if count else ("-", "dim") for count in _ok(report, quiet)]
        yield [(_quiet(rows, quiet), "dim"), *counts]


def print_gate(console: Console, report: GateReport, verbose: bool = False) -> None:
    """Print :func:`gate_table` as wide as it must be."""
    table = gate_table(report, verbose)
    if not table.row_count:
        return
    with console.capture() as capture:
        console.print(table)
    console.out(*(line.rstrip(" ") for line in capture.get().splitlines()), sep="\n", highlight=False)


def _rows(report: GateReport, verbose: bool) -> tuple[dict[str, dict[str, CheckResult]], list[dict[str, CheckResult]]]:
    """Rows that say something, and those that do not. Configs of one name have their paths in it."""
    rows: dict[str, dict[str, CheckResult]] = {}
    quiet = []
    by_config = report.by_config()
    names = Counter(config for config, _ in by_config)
    for (config, path), row in by_config.items():
        if verbose or any(record.status != "clean" or record.warnings for record in row.values()):
            rows[config if names[config] == 1 else f"{config} ({display_path(path)})"] = row
        elif any(_is_config(record) for record in row.values()):
            quiet.append(row)
    return rows, quiet


def _quiet(rows: Mapping[str, object], quiet: Sequence[object]) -> str:
    return f"{len(quiet)} {'more' if rows else 'in all'}"


def _ok(report: GateReport, quiet: Sequence[Mapping[str, CheckResult]]) -> list[int]:
    return [sum(check in row for row in quiet) for check in report.checks]


# --- files -----------------------------------------------------------------------------------------


def gate_json(report: GateReport, root: Path) -> str:
    """The report as JSON that :func:`read_report` reads; paths below ``root`` are relative to it."""
    change = relative_to(root)
    results = [pack(retitled(with_paths(record, change))) for record in report.records]
    for result in results:
        for file in result["files"]:
            del file["telling"]  # the diff without what every change of it has
    data = {
        "schema": SCHEMA,
        "exit_code": report.exit_code,
        "results": results,
        "not_run": list(report.not_run),
        "not_collected": [change(path) for path in report.not_collected],
        "is_short": report.is_short,
    }
    return json.dumps(data, indent=2) + "\n"


def read_report(path: Path, root: Path) -> GateReport:
    """A report that :func:`gate_json` made.

    Raises:
        PatchgenError: it cannot be read, or is no such report.
    """
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise PatchgenError(f"a report of schema {data['schema']}, not {SCHEMA}", Location(str(path)))
        for result in data["results"]:
            for file in result["files"]:
                file["telling"] = file["diff"]
        records = (with_paths(unpack(result), lambda name: str(root / name)) for result in data["results"])
        left_out = tuple(str(root / name) for name in data["not_collected"])
        return GateReport(tuple(map(retitled, records)), tuple(data["not_run"]), left_out, bool(data["is_short"]))
    except OSError as error:
        raise PatchgenError(f"cannot be read: {error.strerror}", Location(str(path))) from None
    except (ValueError, KeyError, TypeError):
        raise PatchgenError("not a report of 'pytest --patchgen-report'", Location(str(path))) from None


def check_report_name(path: Path) -> None:
    """Refuse a report file of unknown format.

    Raises:
        PatchgenError: its name ends in none of ``.json``, ``.md`` and ``.html``.
    """
    if path.suffix not in (".json", ".md", ".html"):
        raise PatchgenError(f"report file '{display_path(path)}' ends in none of .json, .md and .html")


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


def write_report(report: GateReport, path: Path, root: Path) -> None:
    """Write a report as JSON, Markdown or HTML, by the ending of its name; makes the folder.

    Raises:
        PatchgenError: the ending is another, or the file cannot be written.
    """
    check_report_name(path)
    if path.suffix == ".html":
        from patchgen_core.report.html.pages import write_gate

        write_gate(report, path, root)
        return
    text = gate_markdown(report, path.parent) if path.suffix == ".md" else gate_json(report, root)
    write_files([(path, text)])


def merge(reports: Iterable[GateReport]) -> GateReport:
    """One report of several runs over parts of a project, such as the jobs of a CI run.

    What one run left out and another ran counts as run; of a check that ran twice the worse verdict counts.
    """
    reports = list(reports)
    records: dict[tuple[str, str, str], CheckResult] = {}
    for record in (record for report in reports for record in report.records):
        key = (record.config, record.path, record.name)
        if key not in records or _WORST.index(record.status) < _WORST.index(records[key].status):
            records[key] = record
    ran = {record.item for report in reports for record in report.records}
    paths = {record.path for record in records.values()}
    not_run = dict.fromkeys(item for report in reports for item in report.not_run if item not in ran)
    left_out = dict.fromkeys(path for report in reports for path in report.not_collected if path not in paths)
    is_short = bool(left_out) and any(report.is_short for report in reports)
    return with_unused(GateReport(tuple(records.values()), tuple(not_run), tuple(left_out), is_short))


def gate_markdown(report: GateReport, folder: Path | None = None, is_whole: bool = True) -> str:
    """The report as Markdown: the table, and what was found below it.

    Args:
        report: the report.
        folder: where the text is going to lie, for links to pictures; None leaves them out.
        is_whole: show all rows of tables.
    """
    from patchgen_core.report.tables import row_markdown

    verdict = "green" if report.is_green else "red" if report.exit_code else "nothing ran"
    lines = [f"### patchgen: {verdict}", "", report.summary(), ""]
    if report.records:
        rows, quiet = _rows(report, False)
        lines += [row_markdown(["config", *report.checks]), row_markdown(["---"] * (len(report.checks) + 1))]
        for config, row in rows.items():
            lines.append(row_markdown([f"`{config}`", *(_cell(row.get(check)) for check in report.checks)]))
        if quiet:
            counts = (f"{count} ok" if count else "-" for count in _ok(report, quiet))
            lines.append(row_markdown([_quiet(rows, quiet), *counts]))
    for record in report.records:
        if record.status not in BAD and not record.warnings:
            continue
        title = html.escape(f"{record.config}: {record.name}")
        lines += ["", f"<details><summary>{title}</summary>", "", *_details(record, folder, is_whole)]
        lines += ["", "</details>"]
    if report.not_run:
        lines += ["", "Not run: " + ", ".join(f"`{item}`" for item in report.not_run)]
    if report.not_collected:
        lines += ["", "Not collected: " + ", ".join(f"`{display_path(path)}`" for path in report.not_collected)]
    return "\n".join(lines) + "\n"


def _details(record: CheckResult, folder: Path | None, is_whole: bool) -> Iterable[str]:
    from patchgen_core.report.diff import plain_diff
    from patchgen_core.report.markdown import escape, fence
    from patchgen_core.report.tables import table_markdown

    for cause in record.causes:
        yield f"- {escape(str(cause))}"
    shown = [*map(str, record.errors), *(f"warning: {problem}" for problem in record.warnings)]
    if shown:
        yield from ["", *fence("\n".join(shown))]
    if record.picture and folder is not None:
        name = os.path.relpath(record.picture, folder).replace(os.sep, "/")
        yield from ["", f"![errors by layer](<{name}>)"]
    for table in record.tables:
        yield from ["", *table_markdown(table, is_whole)]
    for diff in [*(c.upstream_diff for c in record.causes), *(f.telling for f in record.files if not f.missing)]:
        if diff:
            yield from ["", *fence(plain_diff(diff, folded=True).plain.rstrip("\n"), "diff")]
