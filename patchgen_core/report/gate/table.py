"""Configs against checks: the table of a run, whatever shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen_core.checks.result import BAD, STATUS_STYLE, CheckResult
from patchgen_core.errors import display_path
from patchgen_core.report.gate.report import GateReport, is_config
from patchgen_core.report.words import quantity


@dataclass(frozen=True)
class Row:
    """A config, or how many have nothing to say; what came of each check, with its style."""

    config: str
    cells: tuple[tuple[str, str], ...]
    is_count: bool = False


def gate_rows(report: GateReport, verbose: bool = False) -> Iterator[Row]:
    """A row for each config that has something to say, and one for all others; with ``verbose`` one for each.
    Configs of one name have their paths in it."""
    by_config = report.by_config()
    names = Counter(config for config, _ in by_config)
    count, clean = 0, []
    for (config, path), results in by_config.items():
        if verbose or any(result.status != "clean" or result.warnings for result in results.values()):
            count += 1
            name = config if names[config] == 1 else f"{config} ({display_path(path)})"
            yield Row(name, tuple(_cell(results.get(check)) for check in report.checks))
        elif any(map(is_config, results.values())):
            clean.append(results)
    if clean:
        counts = (sum(check in results for results in clean) for check in report.checks)
        cells = tuple((f"{number} ok", "green") if number else ("-", "dim") for number in counts)
        yield Row(f"{len(clean)} {'more' if count else 'in all'}", cells, is_count=True)


def _cell(result: CheckResult | None) -> tuple[str, str]:
    """What came of a check, and its style."""
    if result is None:
        return "-", "dim"
    causes = ", ".join(dict.fromkeys(cause.kind for cause in result.causes))
    text: str = "ok" if result.status == "clean" else result.status
    if causes and result.status in ("fixed", "failed", "drifted"):
        text = f"{text}: {causes}"
    if result.warnings and result.status not in BAD:
        text = f"{text}, {quantity(len(result.warnings), 'warning')}"
    return text, STATUS_STYLE[result.status]
