"""Findings that a project knows of and holds back, in a file that is checked in, so that only new ones fail.

A rule's finding is known by its config, its item, its rule and the names in its message, so that it stays known when
lines move or the message is put in other words; any other by its message without numbers.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from patchgen_core.checks.result import CheckResult
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.files import read_text, write_files
from patchgen_core.project.project import Project

_LINES = re.compile(r"\b(lines?) \d+(?:-\d+)?|(?<=\.py):\d+")
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\w)", re.IGNORECASE)
_NAME = re.compile(r"'([^']+)'(?!\w)")
_SCHEMA = 1


@dataclass(frozen=True, order=True)
class KnownFinding:
    """A finding without what moves.

    ``item`` is the check's, such as ``parity[eager]``; ``code`` is empty for what is no rule's. ``marks`` is what of
    the message tells one finding from another.
    """

    config: str
    item: str
    code: str
    marks: tuple[str, ...]
    message: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.config}: {self.item}: {f'{self.code} {self.message}'.lstrip()}"


@dataclass(frozen=True)
class Baseline:
    """The known findings of a project, and how often each is there; ``path`` is the file that has them."""

    path: Path
    counts: Mapping[KnownFinding, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many findings it has."""
        return sum(self.counts.values())

    def write(self) -> None:
        """Write the file; a PatchgenError when that cannot be done."""
        rows = [_row(known, number) for known, number in sorted(self.counts.items())]
        lines = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in rows)
        findings = f"[\n{lines}\n  ]" if rows else "[]"
        write_files([(self.path, f'{{\n  "schema": {_SCHEMA},\n  "findings": {findings}\n}}\n')])


def baseline_path(project: Project) -> Path:
    """Where a project's baseline is, or would be."""
    return project.base / project.baseline


def read_baseline(project: Project) -> Baseline | None:
    """The baseline of a project; None where it has none, a PatchgenError where the file is none."""
    path = baseline_path(project)
    text = read_text(path)
    if text is None:
        return None
    counts: Counter[KnownFinding] = Counter()
    try:
        data = json.loads(text)
        if data["schema"] != _SCHEMA:
            raise ValueError(f"its schema is {data['schema']}, and {_SCHEMA} is known")
        for row in data["findings"]:
            counts[_known(row)] += int(row.get("count", 1))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        hint = "Resolve the conflict if it has one, or run 'patchgen baseline' to write it again."
        raise PatchgenError(f"not a baseline: {error}", Location(str(path)), hint) from None
    return Baseline(path, counts)


def _row(known: KnownFinding, number: int) -> dict[str, Any]:
    row = {"config": known.config, "item": known.item, "code": known.code, "message": known.message}
    return row | ({"count": number} if number > 1 else {})


def _known(row: Mapping[str, Any]) -> KnownFinding:
    code, message = str(row["code"]), str(row["message"])
    return KnownFinding(str(row["config"]), str(row["item"]), code, _marks(code, message), message)


def _marks(code: str, message: str) -> tuple[str, ...]:
    names = tuple(_NAME.findall(message)) if code else ()
    return names or (message,)


def identify(config: str, item: str, problem: Problem) -> KnownFinding:
    """A finding as baselines have it."""
    message = _LINES.sub(lambda match: f"{match[1]} #" if match[1] else ":#", problem.message)
    if not problem.code:
        message = _NUMBER.sub("#", message)
    return KnownFinding(config, item, problem.code, _marks(problem.code, message), message)


def hold_back(result: CheckResult, item: str, baseline: Baseline) -> CheckResult:
    """A result without the findings that a baseline has; it is clean where no other is left."""
    if result.status not in ("failed", "clean"):
        return result
    left = dict(baseline.counts)
    kept: dict[str, list[Problem]] = {"errors": [], "warnings": []}
    held: list[Problem] = []
    for kind, problems in (("errors", result.errors), ("warnings", result.warnings)):
        for problem in problems:
            known = identify(result.config, item, problem)
            is_known = left.get(known, 0) > 0
            left[known] = left.get(known, 0) - 1
            (held if is_known else kept[kind]).append(problem)
    if not held:
        return result
    is_failed = result.status == "failed" and bool(kept["errors"] or result.causes)
    return replace(
        result,
        status="failed" if is_failed else "clean",
        errors=tuple(kept["errors"]),
        warnings=tuple(kept["warnings"]),
        held=tuple(held),
        tables=result.tables if is_failed else (),
    )


def find_gone(baseline: Baseline, results: Iterable[CheckResult], is_whole: bool = False) -> Counter[KnownFinding]:
    """What a baseline has of the items that ran, and these did not find.

    ``is_whole`` says that every config of the project was asked, so that another one is not there any more.
    """
    ran: dict[tuple[str, str], None] = {}
    held: Counter[KnownFinding] = Counter()
    configs = set()
    for result in results:
        configs.add(result.config)
        if result.status not in ("error", "skipped"):
            ran[result.config, result.name] = None
        held.update(identify(result.config, result.name, problem) for problem in result.held)
    gone = Counter(baseline.counts) - held
    return Counter(
        {
            known: number
            for known, number in gone.items()
            if (known.config, known.item) in ran or (is_whole and known.config not in configs)
        }
    )


def find_deleted(baseline: Baseline, configs: Iterable[str]) -> dict[KnownFinding, int]:
    """What a baseline has of configs whose files are not among those of the project, by the modules of these."""
    modules = set(configs)
    return {known: n for known, n in baseline.counts.items() if known.config.partition(":")[0] not in modules}


def record(baseline: Baseline, results: Iterable[CheckResult], is_whole: bool = False) -> Baseline:
    """A baseline of what results of a run that held nothing back found; what did not run stays as it was."""
    results = list(results)
    stays = Counter(baseline.counts) - find_gone(baseline, results, is_whole)
    counts: Counter[KnownFinding] = Counter()
    for result in results:
        if result.status in ("failed", "clean"):
            counts.update(
                identify(result.config, result.name, problem) for problem in (*result.errors, *result.warnings)
            )
    return replace(baseline, counts=stays + counts)
